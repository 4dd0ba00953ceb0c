; the bubble takes at most epsilon of the step
; if and only if n_mb >= (1 - epsilon)*(pp - 1)/epsilon.
; Are there values at which no load is above 1, and that does not hold?
; It is known that pp >= 1 and epsilon < 1.
(set-logic QF_NRA)
(declare-const pp Real) (assert (> pp 0))
(declare-const n_mb Real) (assert (> n_mb 0))
(declare-const epsilon Real) (assert (> epsilon 0))
(assert (>= pp 1))
(assert (< epsilon 1))
(assert (<= (* (+ 1 (* (- 1) epsilon)) (+ (- 1) pp)) (* epsilon n_mb)))
(assert (not (>= (* epsilon n_mb) (* (+ 1 (* (- 1) epsilon)) (+ (- 1) pp)))))
(check-sat)
(reset)

; the bubble takes at most epsilon of the step
; if and only if n_mb >= (1 - epsilon)*(pp - 1)/epsilon.
; Are there values at which that holds, and a load is above 1?
; It is known that pp >= 1 and epsilon < 1.
(set-logic QF_NRA)
(declare-const pp Real) (assert (> pp 0))
(declare-const n_mb Real) (assert (> n_mb 0))
(declare-const epsilon Real) (assert (> epsilon 0))
(assert (>= pp 1))
(assert (< epsilon 1))
(assert (>= (* epsilon n_mb) (* (+ 1 (* (- 1) epsilon)) (+ (- 1) pp))))
(assert (not (<= (* (+ 1 (* (- 1) epsilon)) (+ (- 1) pp)) (* epsilon n_mb))))
(check-sat)

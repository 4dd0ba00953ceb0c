; computation takes at least as long as communication
; if and only if Z <= F*L/alpha.
; Are there values at which no load is above 1, and that does not hold?
(set-logic QF_NRA)
(declare-const F Real) (assert (> F 0))
(declare-const Z Real) (assert (> Z 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(declare-const L Real) (assert (> L 0))
(assert (<= (* C Z) (* F L W)))
(assert (not (<= (* C Z) (* F L W))))
(check-sat)
(reset)

; computation takes at least as long as communication
; if and only if Z <= F*L/alpha.
; Are there values at which that holds, and a load is above 1?
(set-logic QF_NRA)
(declare-const F Real) (assert (> F 0))
(declare-const Z Real) (assert (> Z 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(declare-const L Real) (assert (> L 0))
(assert (<= (* C Z) (* F L W)))
(assert (not (<= (* C Z) (* F L W))))
(check-sat)

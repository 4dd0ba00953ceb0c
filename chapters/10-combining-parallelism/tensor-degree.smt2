; tensor communication is at most epsilon of the layer's computation
; if and only if tp <= W_tp*f_L*epsilon/(8*D*C*e*eta) + 1.
; Are there values at which no load is above 1, and that does not hold?
; It is known that tp >= 1 and epsilon < 1.
(set-logic QF_NRA)
(declare-const D Real) (assert (> D 0))
(declare-const C Real) (assert (> C 0))
(declare-const e Real) (assert (> e 0))
(declare-const tp Real) (assert (> tp 0))
(declare-const eta Real) (assert (> eta 0))
(declare-const W_tp Real) (assert (> W_tp 0))
(declare-const f_L Real) (assert (> f_L 0))
(declare-const epsilon Real) (assert (> epsilon 0))
(assert (>= tp 1))
(assert (< epsilon 1))
(assert (<= (* 8 C D e eta (+ (- 1) tp)) (* W_tp epsilon f_L)))
(assert (not (<= (* 8 C D e eta tp) (+ (* W_tp epsilon f_L) (* 8 C D e eta)))))
(check-sat)
(reset)

; tensor communication is at most epsilon of the layer's computation
; if and only if tp <= W_tp*f_L*epsilon/(8*D*C*e*eta) + 1.
; Are there values at which that holds, and a load is above 1?
; It is known that tp >= 1 and epsilon < 1.
(set-logic QF_NRA)
(declare-const D Real) (assert (> D 0))
(declare-const C Real) (assert (> C 0))
(declare-const e Real) (assert (> e 0))
(declare-const tp Real) (assert (> tp 0))
(declare-const eta Real) (assert (> eta 0))
(declare-const W_tp Real) (assert (> W_tp 0))
(declare-const f_L Real) (assert (> f_L 0))
(declare-const epsilon Real) (assert (> epsilon 0))
(assert (>= tp 1))
(assert (< epsilon 1))
(assert (<= (* 8 C D e eta tp) (+ (* W_tp epsilon f_L) (* 8 C D e eta))))
(assert (not (<= (* 8 C D e eta (+ (- 1) tp)) (* W_tp epsilon f_L))))
(check-sat)

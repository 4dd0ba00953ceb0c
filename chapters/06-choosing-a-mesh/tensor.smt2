; computation takes at least as long as communication
; if and only if Y <= F*M_Y/alpha.
; Are there values at which no load is above 1, and that does not hold?
(set-logic QF_NRA)
(declare-const F Real) (assert (> F 0))
(declare-const Y Real) (assert (> Y 0))
(declare-const M_Y Real) (assert (> M_Y 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(assert (<= (* C Y) (* F M_Y W)))
(assert (not (<= (* C Y) (* F M_Y W))))
(check-sat)
(reset)

; computation takes at least as long as communication
; if and only if Y <= F*M_Y/alpha.
; Are there values at which that holds, and a load is above 1?
(set-logic QF_NRA)
(declare-const F Real) (assert (> F 0))
(declare-const Y Real) (assert (> Y 0))
(declare-const M_Y Real) (assert (> M_Y 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(assert (<= (* C Y) (* F M_Y W)))
(assert (not (<= (* C Y) (* F M_Y W))))
(check-sat)

; computation takes at least as long as communication
; if and only if B/N >= alpha**2/(F*M_X*M_Y).
; Are there values at which no load is above 1, and that does not hold?
(set-logic QF_NRA)
(declare-const F Real) (assert (> F 0))
(declare-const N Real) (assert (> N 0))
(declare-const X Real) (assert (> X 0))
(declare-const M_X Real) (assert (> M_X 0))
(declare-const M_Y Real) (assert (> M_Y 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(declare-const |B/N| Real) (assert (> |B/N| 0))
(assert (<= (* C X) (* M_X N W |B/N|)))
(assert (<= (* C N) (* F M_Y W X)))
(assert (not (>= (* F M_X M_Y |B/N| (* W W)) (* C C))))
(check-sat)
(reset)

; computation takes at least as long as communication
; if and only if B/N >= alpha**2/(F*M_X*M_Y).
; Are there values at which that holds, and a load is above 1 at the best split?
(set-logic QF_NRA)
(declare-const F Real) (assert (> F 0))
(declare-const M_X Real) (assert (> M_X 0))
(declare-const M_Y Real) (assert (> M_Y 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(declare-const |B/N| Real) (assert (> |B/N| 0))
(declare-const root_1 Real) (assert (> root_1 0))
(declare-const root_2 Real) (assert (> root_2 0))
(declare-const root_3 Real) (assert (> root_3 0))
(declare-const root_4 Real) (assert (> root_4 0))
(assert (= (* root_1 root_1) F))
(assert (= (* root_2 root_2) M_X))
(assert (= (* root_3 root_3) M_Y))
(assert (= (* root_4 root_4) |B/N|))
(assert (>= (* F M_X M_Y |B/N| (* W W)) (* C C)))
(assert (not (<= C (* W root_1 root_2 root_3 root_4))))
(check-sat)

; computation takes at least as long as communication
; if and only if B/X >= alpha/M_X.
; Are there values at which no load is above 1, and that does not hold?
(set-logic QF_NRA)
(declare-const M_X Real) (assert (> M_X 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(declare-const |B/X| Real) (assert (> |B/X| 0))
(assert (<= C (* M_X W |B/X|)))
(assert (not (>= (* M_X W |B/X|) C)))
(check-sat)
(reset)

; computation takes at least as long as communication
; if and only if B/X >= alpha/M_X.
; Are there values at which that holds, and a load is above 1?
(set-logic QF_NRA)
(declare-const M_X Real) (assert (> M_X 0))
(declare-const C Real) (assert (> C 0))
(declare-const W Real) (assert (> W 0))
(declare-const |B/X| Real) (assert (> |B/X| 0))
(assert (>= (* M_X W |B/X|) C))
(assert (not (<= C (* M_X W |B/X|))))
(check-sat)

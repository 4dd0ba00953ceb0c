; computation takes at least as long as communication
; if and only if B/S >= C/W_dcn.
; Are there values at which no load is above 1, and that does not hold?
(set-logic QF_NRA)
(declare-const C Real) (assert (> C 0))
(declare-const W_dcn Real) (assert (> W_dcn 0))
(declare-const |B/S| Real) (assert (> |B/S| 0))
(assert (<= C (* W_dcn |B/S|)))
(assert (not (>= (* W_dcn |B/S|) C)))
(check-sat)
(reset)

; computation takes at least as long as communication
; if and only if B/S >= C/W_dcn.
; Are there values at which that holds, and a load is above 1?
(set-logic QF_NRA)
(declare-const C Real) (assert (> C 0))
(declare-const W_dcn Real) (assert (> W_dcn 0))
(declare-const |B/S| Real) (assert (> |B/S| 0))
(assert (>= (* W_dcn |B/S|) C))
(assert (not (<= C (* W_dcn |B/S|))))
(check-sat)

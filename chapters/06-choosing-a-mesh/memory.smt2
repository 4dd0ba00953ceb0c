; weights and optimizer state of a chip fit in its memory
; if and only if P <= M_hbm/10.
; Are there values at which no load is above 1, and that does not hold?
(set-logic QF_NRA)
(declare-const M_hbm Real) (assert (> M_hbm 0))
(declare-const P Real) (assert (> P 0))
(assert (<= (* 10 P) M_hbm))
(assert (not (<= (* 10 P) M_hbm)))
(check-sat)
(reset)

; weights and optimizer state of a chip fit in its memory
; if and only if P <= M_hbm/10.
; Are there values at which that holds, and a load is above 1?
(set-logic QF_NRA)
(declare-const M_hbm Real) (assert (> M_hbm 0))
(declare-const P Real) (assert (> P 0))
(assert (<= (* 10 P) M_hbm))
(assert (not (<= (* 10 P) M_hbm)))
(check-sat)

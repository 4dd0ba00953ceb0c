; the gradients hide under the backward pass
; if and only if T_r >= C*e_g*eta*(cp*dp - 1)/(2*fma*cp*dp*W_dp).
; Are there values at which no load is above 1, and that does not hold?
; It is known that cp >= 1 and dp >= 1.
(set-logic QF_NRA)
(declare-const C Real) (assert (> C 0))
(declare-const fma Real) (assert (> fma 0))
(declare-const e_g Real) (assert (> e_g 0))
(declare-const cp Real) (assert (> cp 0))
(declare-const dp Real) (assert (> dp 0))
(declare-const eta Real) (assert (> eta 0))
(declare-const T_r Real) (assert (> T_r 0))
(declare-const W_dp Real) (assert (> W_dp 0))
(assert (>= cp 1))
(assert (>= dp 1))
(assert (<= (* C e_g eta (+ (- 1) (* cp dp))) (* 2 T_r W_dp cp dp fma)))
(assert (not (>= (* 2 T_r W_dp cp dp fma) (* C e_g eta (+ (- 1) (* cp dp))))))
(check-sat)
(reset)

; the gradients hide under the backward pass
; if and only if T_r >= C*e_g*eta*(cp*dp - 1)/(2*fma*cp*dp*W_dp).
; Are there values at which that holds, and a load is above 1?
; It is known that cp >= 1 and dp >= 1.
(set-logic QF_NRA)
(declare-const C Real) (assert (> C 0))
(declare-const fma Real) (assert (> fma 0))
(declare-const e_g Real) (assert (> e_g 0))
(declare-const cp Real) (assert (> cp 0))
(declare-const dp Real) (assert (> dp 0))
(declare-const eta Real) (assert (> eta 0))
(declare-const T_r Real) (assert (> T_r 0))
(declare-const W_dp Real) (assert (> W_dp 0))
(assert (>= cp 1))
(assert (>= dp 1))
(assert (>= (* 2 T_r W_dp cp dp fma) (* C e_g eta (+ (- 1) (* cp dp)))))
(assert (not (<= (* C e_g eta (+ (- 1) (* cp dp))) (* 2 T_r W_dp cp dp fma))))
(check-sat)

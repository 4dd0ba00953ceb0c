; the ring hides under the attention
; if and only if T_r >= 2*K*H*C*e*tp*eta*(cp - 1)/(D*fma*cp*W_cp).
; Are there values at which no load is above 1, and that does not hold?
; It is known that tp >= 1 and cp >= 1.
(set-logic QF_NRA)
(declare-const D Real) (assert (> D 0))
(declare-const K Real) (assert (> K 0))
(declare-const H Real) (assert (> H 0))
(declare-const C Real) (assert (> C 0))
(declare-const fma Real) (assert (> fma 0))
(declare-const e Real) (assert (> e 0))
(declare-const tp Real) (assert (> tp 0))
(declare-const cp Real) (assert (> cp 0))
(declare-const eta Real) (assert (> eta 0))
(declare-const T_r Real) (assert (> T_r 0))
(declare-const W_cp Real) (assert (> W_cp 0))
(assert (>= tp 1))
(assert (>= cp 1))
(assert (<= (* 2 C H K e eta tp (+ (- 1) cp)) (* D T_r W_cp cp fma)))
(assert (not (>= (* D T_r W_cp cp fma) (* 2 C H K e eta tp (+ (- 1) cp)))))
(check-sat)
(reset)

; the ring hides under the attention
; if and only if T_r >= 2*K*H*C*e*tp*eta*(cp - 1)/(D*fma*cp*W_cp).
; Are there values at which that holds, and a load is above 1?
; It is known that tp >= 1 and cp >= 1.
(set-logic QF_NRA)
(declare-const D Real) (assert (> D 0))
(declare-const K Real) (assert (> K 0))
(declare-const H Real) (assert (> H 0))
(declare-const C Real) (assert (> C 0))
(declare-const fma Real) (assert (> fma 0))
(declare-const e Real) (assert (> e 0))
(declare-const tp Real) (assert (> tp 0))
(declare-const cp Real) (assert (> cp 0))
(declare-const eta Real) (assert (> eta 0))
(declare-const T_r Real) (assert (> T_r 0))
(declare-const W_cp Real) (assert (> W_cp 0))
(assert (>= tp 1))
(assert (>= cp 1))
(assert (>= (* D T_r W_cp cp fma) (* 2 C H K e eta tp (+ (- 1) cp))))
(assert (not (<= (* 2 C H K e eta tp (+ (- 1) cp)) (* D T_r W_cp cp fma))))
(check-sat)

"""The first process of a namespace, compiled from `init.c` by `make init`. Generated: the source
is what to read and to change."""

import base64
from collections.abc import Mapping

__all__ = ["INIT", "SOURCE_SHA256"]

SOURCE_SHA256 = "bd3145ac3f8e7f49e08fbc761a63f3edd3467a205eee1f95edb04bf0e9e48fe3"

_X86_64 = (
    b"e??420s#R400000000000suY$0RR91umC^+00000KmY&$00000SOx$90000000000Kma%Z0sue&1ONj70RR911poj5"
    b"0000000000002M$00000002M$000005e5JN000005e5JN0000001yBG00000QRQ@G1^@s600000000000000000000"
    b"0000000000000000000000000000005C8xG00000NQvi2gXHk&YytoP^hjg>LAmDu001%4MKRJvF~CfT$ViFS4+ZP)"
    b"F~CTR7m5mvanL}3{t0&(NNd0fNR3JXNQn;*z7m7#Fi2z4NCD96*?{>hbp}ZP!bpi1!$DU`iTOn_(ztK{002Q&K~+Ii"
    b"Nr}`k(p5-_*GP%YQ%HmCI7o?fBoIi6)=Y^+BnU+@zz+pUi+LzWh5vLpy8!?I0LDZlBrr{jX$VM-"
    b"bR;B5iP%Vq+7AUtg}`|ki9{qQNR4zPD7pjy002md*i4D<=>-7*071P-0000n+ewRg5JfT4MKQp-KmY&$Oo`}7iQW$d"
    b"Nr}cui+LDKiRcdnNr}fvi+Ko4iRcdnLA@ja002md1SCv}_ehD_Oo`|Z1-"
    b"=0Q002yh=uC<K4+Xvh0000;i##N{000O8Oo`|Z1-"
    b"P^U006%P0002K|NsC0NQv4H1xSU!c_F(40000n(nT@SMKQogiP%Vq)(-"
    b"_p|Hnvy{{RF40CnU@i$o+4fH(kjVMvX9BoIY0(nT@A=#&2c|450$=!^dU|44~MBq->C{{R0-jZ`EkG5<)3-"
    b"bjf=Brv!x0RR9G1xSU!dAW&1BqT_UbR;CW0RR91zXJdO0J;PK000jKzkUD!0O%+F|NlvYc_09FH%N);NQvr5ivdW5z"
    b";q;lI8b#GfOr8{bqs)b0z`ENfOrEvbO%U@0!V|x2uOp$2<y}_z(|P#NR4zP2tm3C0000*F~Bj>xDEgS0KWnN000jKM"
    b"KRJzi##N_I{*LxOo`@5iRuppzXJdO0Et8-"
    b"C`gTTBq+E60002G1ONa44+Xz}0002#Y5)KKL03UmK~+IiRZ~cT?1%vX08EP)NrU<V4~FCb002mfM-"
    b"WVnL?l2-iTO>5#Yl-nBp67Id?Xl2gTM&raQ*-PNr^!CNR31!a7j79b>uPILA(S2002vkY|#)!F~CJJ(zu-"
    b"f002yh=SYd(NQv4H1u?)#jZ`EkNR4zPAV`VdNQp!wC_%ai0002E4gdfENXJAZAOHXX01pL7gM1`F0Ca9ax&R0W07Ws"
    b"txFG=m07!$+|GEeO000jKMKRJziO0VY0002EH~;_uNQvG^iP{eZNr}cx3HW(1O@;qRi+m(VxB&nF08EMEMGr{#NR6~"
    b"4@Bjb+M2WN{@Bjb+4+Xz{0002!iTwZnO@;P#8BB{rBq&IWbR-"
    b"x^iRny<?@5hO80fqF|NlX`0{{R3MKRJvF~CTRd?ZjziO3HHNQ-"
    b"<VSWJn?4+Tks&Hq8XKmY&$NQ*=yKt(ahM2UPPI7Kni$3!GF0RR91LAVG2002mhd?YYTiOPvYBrv`L0002E4*>uG$3!"
    b"GN0RR914+Um}d?Y>q4}{AA002cXz)XqAOo{)xfB*mhNR4zPa1RAci%cX)MKQp*JpcdzOo{Kh0RR91OpTNz@Bjb+NR4"
    b"zP5Dx`Ng}@Jvi2wiqNjb)K(~CqT5J9~J0000*G15gbz(|X%Bme;b07#8=Bos`E&rFHxi9{q6OpBx>2mt^9xB&nF07w"
    b"I@B=7(L089g<B=`UT01pLBiQsAN=mP)%x#$A`07#ig_xVhT>H)>L0RR91iEJbk4+V=vBoGg_{Da_s4}_`y|No7+fB*"
    b"mh>7M@o|7L@HBsKs@i+m(N4}{wO|Nl&lj3n>?002cX(nT@AF~CfT&P<8o4+Thtz<&zAi2wiq>1O`_|4NM<2uz9ay*>"
    b"Z{07&=PNQp!w2tg0FF-VJiBnU+@(nT@AG15qh=nn-*g}`|XK@YYuNQvl7iT4i$N&mq~IoWm5>1+P~|3^bZIv^-"
    b"SWnyVzZXhu-E;24KEip7JWMyJ8GIcR2ATcs7GA=Lx04{TAb98caVPXI-bY*yS04`&1ZEa<4bN~PV00000000000000"
    b"000000000000000000000000000000000000000000000000000000000000000000000003jhEB0RR911^@s60000"
    b"0umC^+00000umAu600000VFdsH0000000000000000RR910000000000000005dZ)H0RR91FaQ7m00000000000000"
    b"05e5JN00000CjbBd0000000000000000RR91000000RR91000000RR910{{R300000000000000000000I0gU!0000"
    b"08UO$Q0000000000000000RR91000000000000000"
)

_AARCH64 = (
    b"e??420s#R400000000000syxF0RR91umC^+00000KmY&$00000NCyA_0000000000Kma%Z0sue&1pov90RR911poj5"
    b"0000000000002M$00000002M$0000000#g70000000#g7000000003100000QRQ@G1^@s600000000000000000000"
    b"0000000000000000000000000000005C8xG00000-"
    b"~#}W#sC16AOIlL;sXGxMFD`)004l}K>$GcBmh7;gTMe$V;leye<T2L$p8RUpRfRNVE_PBAp`)CK>z^xzyn{_BLo1EL"
    b"jVBzApk%*A;17pA$&lS00ae_@BjZ7=mP+%-"
    b"~$1w;R6Dy;sXP!;{yb$<O2n&0RRBhzyn{_{d>Nt1pt831OR~2{R04z;&T9zg8+ci;U56G;R67w00@B6@Bjao{d>Zwz"
    b"yn{_27Ex1{d>Qu{R04z;R6P$1pt831OR~20|0>10sw&0zzcxV<NyDc`TzeH{d>Ks<^uq#=>r0){R04zpc8=7=K}+(1"
    b"pt830|0>10sw&0<Ocz%1OR~20RVu~)&KvOz!X6F00IEC0S16l2nc}E#RNe4A^?EW0|0>11OR~2;e!A<;e!B?0RRBh;"
    b"R67wpaA%`-"
    b"~$D!&j0_Hzz={@*#G~Rzz9J3C<B1f0RVu~0tkT80|0>11OR~20RRBh>;nL*zzjh70RRBh>jMC)zyv_~0RRBh1pt83>"
    b"H`3(;R6h+0sw&000V&1vH$;<;R6e*1OR~20|0>1A^?EW00V&1tN;I(;R6b)1OR~20|B7YVgP{B00V&1rT_nzh&F)If"
    b"B=Bf;eSA~0sw&00|0>11OR~20RRBhfC2cniU5Gp;R6b)1pt831OR~20|0>10sw&0AP0cbN(BIsl>h&iUjY#D;r{<r;"
    b"159g002NazyJU>zz{(BAO!%m;R6S%-"
    b"~$J$BLDyt;9~%hbN~OB>H`3(;9~%haR2|8;1dA(;9~%hZU6t5;R6b);)4K@s33sS0|0>11OR~2;1>Y-"
    b"004l}0RRBh;R67w;Qar#U;u#9u>b!Tf&f4{UqAtIK>+|%f&@T0Ut9rk;Q#<sf(Sr4Ul0LtfdBwhf($@8U-"
    b"STRKmY(#1cU(iAs_&eBmhA9B>w-"
    b"k9{>RP;zIzD1pt831Ob530|0>1K>&c#;1Gb)UjP4>AOS%6;R6Y(;sXb&s2hON0|0>11OR~20RRBh;R66FU;u#9T>t-"
    b"<;17UOj{pA`{d=gX{R04z3IIU)UkL#5XaE3IpbvmjU;qD?=>q_&>jMFi00=<&1^|H4;12-"
    b"#;9~%hFaQ6SV0k9^#smP7-"
    b"xvV#VgLVB1pt831OR~20|0>10sw&0fdGKg;1qz;IsgBcN(lgwAON7!<D&qP;)4K@1Ob530RVu~;C}+C;1Gb)F#rFTD"
    b"h&#Y;3Gi!-~a%%;SWIh;{yt+<QG8sB4GfL-"
    b"~$V)M*shp0|0^2;e!B?NC|+_004lJ0s(;10|B7&1OR~20RRBhh#P>?=K}z$0RVu~AOe8W0sw&00|0>10RRBh<^uq#0"
    b"00N7zySER;3q)&{{R5-;jo4p8UO#6#Q*;nX8ixO;VVG-AP0cbEC7H~3;+L@;V(e>1OR~20|0>10sw&0AP0cb1^@q-"
    b">LWn;APIod;llut1p$E41OR~20|0>1LI8l$>N5r@=Q9T>`~Lrz;D5k*Kmq_X;==)v;R6S%1pt831OR~20}z1H;0J)x"
    b"^8Wvq=_f$>;Zp#S<HG}yh#-K{004lJA^?EW1OR~20RRBh9{>RH3<3aD;BUZrK>YtS>B9q&-"
    b"~$S(;R6Y(=m&t(0tkT80|0>11OR~20RRBh>H`3(9{>RHECT>kAQ6C4j{pA`-"
    b"v9vX;r#zp=NnI{;DbQ<;TJ%;=KuhU;D<o@#sC0|-~$P&*Z%*P0DXYc0eyf{#tguk-"
    b"~$P&As7c6(f<FJ;TJ%;A{YR2KmY;}Av{RaAOL_Gc>n(w?E?nO3jl!9Apt-+-"
    b"~$b+C=h_s0sw&00|0>11OR~20RRBhzySERA^|`-;R6P$-"
    b"~$M%1pt83wEq8>YXtz2DFpzLUjYm20sj9~tN;HO5C8xG000000eVsZ1b7|+8w?)+5C8xG7ytkONc#W(Q~&?~000005"
    b"C8xGEC2uii2DEkAOHXW000008~^|SKmY&$l=}bwFaQ7m06`8Qodli(O5WWL000006aWAKU;qFBr27B=EC2ui074EBo"
    b"dTW#6aWAKcmMzZxcdM9Kmq^&06`8god%u-7ytkOkN^Mx;Qaspi~;}v06`9b1D!CQF8}}lM?*t8ASgs-VrgM+ATcs7G"
    b"A=MJF*GS4F)}VPE-"
    b"(N9E^}yebaHfIVgN35Wq5P|E@fz6W^!R|WdJT?Z*6U5Zgc<u000000000000000000000000000000000000000000"
    b"00000000000000000000000000000000000000000003jhEB0RR911^@s600000umC^+00000umAu600000s09E300"
    b"00000000000001ONa40000000000000005dZ)H0RR910ssI200000SO!1<00000SOx$900000r~m)}000000000000"
    b"0002mk;80000000000000008vp<R0RR91FaQ7m00000000000000000#g7000009{>OV0000000000000000RR9100"
    b"0000RR91000000RR910{{R3000000000000000000009|r&c00000Bme*a0000000000000000RR91000000000000"
    b"000"
)

# By the machine's name, as uname has it.
INIT: Mapping[str, bytes] = {
    "x86_64": base64.b85decode(_X86_64),
    "aarch64": base64.b85decode(_AARCH64),
}

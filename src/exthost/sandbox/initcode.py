"""The first process of a namespace, compiled from `init.c` by `make init`. Generated: the source
is what to read and to change."""

import base64
from collections.abc import Mapping

__all__ = ["BUILT_BY", "INIT", "INIT_SHA256", "SOURCE_SHA256"]

SOURCE_SHA256 = "df4da950f22649703fbd037594ce5fb436d9dc4df75f07776729192e5a922480"

_X86_64 = (
    b"e??420s#R400000000000suY$0RR91umC^+00000KmY&$00000m<j*@0000000000Kma%Z0sue&1pov90RR911poj5"
    b"0000000000002M$00000002M$00000O$q=200000O$q=20000001yBG00000QRQ@G1^@s600000000000000000000"
    b"0000000000000000000000000000005C8xG00000NQvi2gXHk&*8>0m^hjg>LAmDu001%4MKRJvF~CfT$ViFS4+ZP)"
    b"F~CTR7m5mvanL}3{t0&(NNd0fNR3JXNQn;*z7m7#Fi2z4NCD96*?{>hbp}ZP!bpi1!%2zIG08!>3IG5AOo_lT(n$Zo"
    b"N%!%C!Z3(b4ChRV!byq1NQ3$bcj8C^_ehDzNdL%4|Hq0{1n7uY|44<vb?!)w1Tn)wS4oNaMKRL2Z~y=RK~_OkK~zbJ"
    b")G^XkNQu`-"
    b"iOo|;gX}m+iF70oNQu@=i9{p_MKQn+1xbr}Fi3^}bUC{L0002SL?k3IO^ay=NR4zPBuI(aNQv4H1xSU!c^QdBBq&IY"
    b"bR;Oc1ONa4NQu}?iSOwJ0RR9&y+{B605RK1i+K=5G15gbz`8&H002yh=tzm)4+Tky#z~8L7)*)i4+Tky$4QHM2uz9S"
    b"4+TNJBmn>bNQnd_Oo{hMiP}tw=nn<H0RR91Oo`}BiT@7;z5@UN07#2GB)R|q2mnlp=nn<Bv;hDBzXSjP0KWhK|Nlsd"
    b"+7AUtg}`|sy8{3K05Q@<G15gbz(|SMNQu@D1xWwLNP+(V1ONba<VcG|BoKf&0CZtUjeH~!MKRJvF~I0e{{R0-"
    b"iNokc{{R0-"
    b"i9{qQ=sW)Z|45BgBq%ZeNQvG^i9{qYxGn(z01pL7g}`~ai9{qMNR4zPB)9<p006%O0002G1ONa44+Xz|0002!;r;*r"
    b"NrQPH0ChJ=iRnm*>PU+LNQJ<3B!D<jbrOJh0atYlfOrB#bq0WV13h#HNQnYSgTe?%gTV;v)G@$Fi2_KCbR-Btx(EOO"
    b"07WstG19mW0002L0ssI24+TXr(n*UvB)B^O002yh=17U^4+Xyi0001qL?kFkjdUa^xB&nF0J;PK000jKzkdJ#0O@J}"
    b"|NlW$NQv@EiSjY_RZ~cb`$&WAKuL+@Oo`{{f&KsgNQuU{iwQsgiV%d-"
    b"bPP!U#z_Cbh*UKH>+Vd6(oBix=v@8(|4E6#xPb{k0E!TV(sT_;|G`NAz(R;r4FBuxMKRJvF~GP10RRBH0RRX9NXN&V"
    b"|Ns9;iQW$dNQuKpg}`_pxB&nF07!}7Oo`@9iOLTJG15qh!?*(g002md)(-_pgTz2ciP&3RL0rRANQv?>_DF-ofQke+"
    b"gurwONdLx&L^S{F@JRRCxP%En0E!5N$#e`z|HerFz=%vV|Lg8ZiQ`C#-"
    b"{`aa|Nlsd!nlnIKmdvegvoRaNdLk}|G<b$6#wh)MKRJvF~GP10002L0ssI2NQvGL1;2d&008JJ{Qv(!S3y=mRY6o$Q"
    b"%HgAm;nF)Op7N;gZu&yhVB9Y07#2R5KN6kBuGe!`%Q_(NQp!wAV`gTBp^wHzzFCC{Qv(+i9q;Bjf5nC0000<Ily({L"
    b"Ajj(002cX(nT@AG19(|2|xh94*&oFOo_-"
    b"31xSN@Bya!^gxvuE0Jv)a002md*GP%h4+Tky$GB_&000jKzX1RM07!`hB)$m%002yh$PWd*H~;_uzYzceAV`VUNQvk"
    b"V1wp<500JOMiNQ#N`2TeizYzceFi45$4+TNK0006oNr}Ntg~@phOo`6FoC!bx=?Vb=0CamX(nT@SMKQp*v;hDBiIgM"
    b"&0RR9o(!T%y|Nlsd*AE3qg}`_ZNR6~400961yFCB^0P7_&|GNVK001%4MKRJvF~CTP*hq=i4+Tj7$4G(y00aO4b>!>"
    b"JMKRJvF~Bj>NQu}?iO&xONQ3zNbn1(QBme;b0O|4q006xK0000*G15gbz_^_N006!T0000;iSJB_$`1uW54z?Yb8f!"
    b"72|xh20RaF2x&Z(P07%Ejod5s-4+Thx$4G_1cpSda2|xh41ONa4NQvkV1-"
    b"JtM002yh&P<8Q4+Tt#{=d};Kmh0m{r~?+g}`_dNQ*Qizvu}-"
    b"0O<7m|NlsZz<CWwiN?SC2|xhokNyAuMKRJvF~Bj>xSaq10KX;x006!L0000F1wpx`0000%x&S~30KOm!KmbUI*G!4X"
    b"4+Thtz<3?HBMLwOLAnkA006!s3P1o%iO5Ka*AE3qg}`|VNQuV3C<;IT>zze0$x4lE;}AtL(nT@ALA(S2006k10000?"
    b"iOx)k%1nvp4+Sy6NR3n^Fi4GbBq&UY&q#?xBrrj`2mk;8xDEgS07%C~Bq#s?0RRsLNP~PNNC0$hLAn442mnPfz_=j+"
    b"002mX&;Pmz0000F1w}E^Nr}h55dZ)HxHtd+08EL_Oo_@51xbm<ObPgTFinO3NQ-"
    b"<VP`CjA002yh;zbWg_ehPjBme;b07QwjBme;b01pMfeE<Le>4pIS08NGVbs0>HL?kdsi*zI)NQvo8iSI~_QyA!s`Tz"
    b"gB0{{R3MKRJvF~CTRd?Z*%iP#SXNQ-"
    b"<VU`UDB4+Thr&HuXr0000%yg&c|07#2OBuGUu$wY~KBtS(m(#J$3JOKaz071A20000;jeI0HOo_^gL?k%A0ssI2xDN"
    b"pU0LMfmL;(N*01pLbgM1`L01t${0000*F~CfT$V`d<x_|%x07#9rB!B<_01pLBi%cX?MKQp*JpcdzNQv)AiP}t!lq3"
    b"KF002mhbR-xL1xSU!ett<g#&y|?L?jqNy#xRN07Ws<MKQogi>xFN0RR9<jdUa&Oo`7-"
    b"iRy_&BpghOq$C&t002md*hmAcBme;b089g<BnSZj01pLBiQsAN=mP)%x#$A`07#ig_xVhT>H)<_iP(v3BpeR~i$o+C"
    b"54QY+;D2;GjktgS008SVW`lerJ^)CId?ZK@gy{bN|4faHBme;b07Ws<MKQoJz)XqGOo`$T1xSU!e+s{e0002!iTD5i"
    b"OaaJ2y*>Z{07!`hBut6$NcY%Ci9{p_K@YYuNQ-<V2t_f{MKQoJ(oBiy4+Thtz<CTo54JH(iRes;_YVb0|G`W-"
    b"3?y~X>2&`8{~$2{Iv{0oa&B)R015zQcywrQb960fZfSG?Zf_t^NkkxSVQpn|aA9L*AY*TJY-"
    b"Au}Wgu-~WMu#^aB^>BFLPyVW-oJPbZ2sJb#QY4WMyu7055QIZ(}cWWo%|Ib!lW@ZDDW#FK}{iV=r@MY-"
    b"TTKX=Gn*VQ>I$Zy<GZWpW^6Z*^>BAYx@8Yh`eBAZczOVIXc{ZDn(CVPj<gF90uaa&Kb*Zf_tjaB^>BAY*TJY-Au}Wg"
    b"uu_WFTp7AYmYGVQpn|aA9L*07pYZIv^-SWnyVzZXhu-E;24KEip7JWMyJ8GIcR2ATcs7GA=Lx04{TAb98caVPXI-bY"
    b"*yS04{QGWMOn+04`&1ZEa<4bN~PV00000000000000000000000000000000000000000000000000000000000000"
    b"0000000000000000003jhEB0RR911^@s600000umC^+00000umAu600000(Fgzl0000000000000000RR910000000"
    b"000000005dZ)H0RR91G5`Po00000feAnW00000fe8Qr00000%m4rY0000000000000000RR91000000RR910000082"
    b"|tP0RR91FaQ7m000000000000000O$q=200000CjbBd0000000000000000RR91000000RR91000000RR910{{R300"
    b"000000000000000000bP50f00000A^-pY0000000000000000RR91000000000000000"
)

_AARCH64 = (
    b"e??420s#R400000000000syxF0RR91umC^+00000KmY&$00000xC{UQ0000000000Kma%Z0sue&1^@*B0RR911poj5"
    b"0000000000002M$00000002M$00000YzzPZ00000YzzPZ000000003100000QRQ@G1^@s600000000000000000000"
    b"0000000000000000000000000000005C8xG00000-"
    b"~#}WL;(PlAOIlL;sXGxMFD`)004l}K>$GcBmh7;gTMe$V;leye<T2L$p8RUpRfRNVE_PBAp`)CK>z^xzyn{_BLo1EL"
    b"jVBzApk%*A;17pA$&lS00ae_@BjZ7|APS0;{yPy<s$%*1OR~2M*)D+MhM56gaiPQhyVqPz=#K%0Kfnd0P!C<-"
    b"~$4x;sXY%A0z<r=>GpyVgLb)-~$Az00aQhqiA3_Llgiwp#T51fB*rD|APRLzyn{_=mP+%-"
    b"~$1w;R6Dy;sXP!;{yb$<O2n&0RRBhzyn{_;{yPy<pTn$A^?EW=K}$%2nT@D;R6GzU<`ng0s)}%0|0>11OR~20RRBhA"
    b"OiTe{d>Qu=>q_&2nc}E{R04z;R6S%;sXV$0RRBh1pt83<^uq#;R6Y(0sw&0AP0cb;Q#-Z-"
    b"~$G#{d>Wvzyn{_zyn{_{d>Nt1pt831OR~2{R04z;&T9zg8+ci;U56G;R67w00@B6(*OUL{d>Zwzyn{_27Ex1{d>Qu{"
    b"R04z;R6P$1pt831OR~20|0>10sw&0zzcxV#{d79`TzeH{d>Ks<^uq#=>r0){R04zpc8=7=K}+(1pt830|0>10sw&0<"
    b"Ocz%1OR~20RVu~xc~o`z!*UJ00IEC0S16l2nc}E#RNe4A^?EW0|0>11OR~2;e!A<;e!B?0RRBh;R67wpaA%`-"
    b"~$D!&j0_Hzz={@*#G~Rzz9J3C<B1f0RVu~0tkT80|0>11OR~20RRBh>;nL*zzjh70RRBh>jMC)zyv_~0RRBh1pt83>"
    b"H`3(;R6h+0sw&000V&1l>h&i;R6e*1OR~20|0>1A^?EW00V&1j{pCc;R6b)1OR~20|B7YVgP{B00V&1i2whWh&F)If"
    b"B=Bf;eSA~0sw&00|0>11OR~20RRBhfC2cniU5Gp;R6b)1pt831OR~20|0>10sw&0AP0cbN(BIscmMyFUjY#D;r{<r;"
    b"159g002NazyJU>zz{(BAO!%m;R6S%-"
    b"~$J$BLDyt;9~%hKL7uh>H`3(;9~%hJOBTe;1dA(;9~%hIRF2b;R6b);)4K@s33sS0|0>11OR~2;1>Y-"
    b"004l}0RRBh;R67w;Qar#U;u#9u>b!Tf&f4{UqAtIK>+|%f&@T0Ut9rk;Q#<sf(Sr4Ul0LtfdBwhf($@8U-"
    b"STRKmY(#1cU(iAs_&eBmhA9B>w-"
    b"k9{>RP;zIzD1pt831Ob530|0>1K>&c#;1Gb)LI3}kAOS%6;R6Y(;sXb&s2hON0|0>11OR~20RRBh;R66FU;u#9T>t-"
    b"<;17UOj{pA`{d>Eq;sXJy>jMC)=|cdK{R04z>H`6)-~$P&0RVu~6#xI1;R67w0{{S!V>l|2V*milU}#}D-"
    b"~j+N;sXk*-~$P&3;+L@0RRAyArLB&;sXGxApii&AZTJZAOQe1;R6Y(-"
    b"~$V)BLDxF{d>izzyn{_AZZ~uAp`)C?*IQ6AZa2vLIePj^#A`C{d>2m;sXJy0RVu~=|cdK{R04z188A5;{pIR0001x0"
    b"30fj0005Y188A5qXGam;sXN9-"
    b"~$P&>;C_j;{yPy0001x06;2{000Ba0cc}5;Q;_O;sXh)1pt831OR~2K>&c#00@B6_x}HvpbvmjCjbAJBWWQxAp`)C="
    b"Kuc}BWWQxAp`)C=>Pv0A!#ExV*~(^?*IQ6{d=dW{R04z4gf&;-"
    b"w6QmXaE3IpbvmjVE_OW>;nL*?IQt^00=<&1^|H4;1dA(;DZ2>vHt&;pm`?v#smP7-"
    b"y8t(VgLVB;1qz;1pt831OR~20|0>10ssJz;Q@fsLP#o+(*FOK;5$J101*JR=oNs{004l}0RVu~0sw&00|0>11OR~20"
    b"RRBhC>DUy>H`3(004l}0RRBhA_0KX?*jm;Apn5V;1qz;!2bW2AOe8Wh#P>?Kmerj0RVu~0sw&00|0>11OR~20RRBh<"
    b"^uq#9|QogfdK$iAOe8WKmexl0RRBh<^uq#M*ybM-"
    b"v9vd>Hq*#0001x;R6P$0DLNung9QnM*yVK`TzeHfCK<kh&F)I004l};eSA~0sw&00|0>11OR~2{{sQJ0RRBhfC2cn2"
    b"LOQ5;R6S%1pt831OR~20|0>10sw&0AP0cb=L7(emHz*i{{Rs2;r{<r-~$G#;R6Jbh#-"
    b"K{0sw&00|0>11OR~20RRBh9}obs0RR6~;R8XrA{YR2Av{RaKmY;}AOL_Gwf_H?1pt831OR~20|0>1A_0KXApn5V;1q"
    b"z;eg6NK#{%Fsf&hTh0RRAy0001xA^0kh01PXUe*XWL;R6b)0001x0AMSTKL7uh;R67w-"
    b"~jly;R6q<0001x0IVyKIRF2b;R67wfB^Wm0001x0Qf7Bz5o9g1pt831OR~20|0>1A^?EW!32QP;1qz;VE+G?0|1E92"
    b"nB%B004l}0RRAy0sw&0A&e}M0|B7&1OR~20RRBh;R67wKmqu-"
    b"0001x0GKS1;sXGx0RRAy!vTQOA(SkU0RRBh;R67wfB^Wm0001x0IV#Lpa1_C1pt831OR~20|0>10sw&0fdGKg;1qz;"
    b"LjM1k&ItgKAON7!<HG=v;-dhO1Ob530RVu~;Qs=t;1Gb)IsX5bjtvfr;3q)&-~a%%;S)gl;{y(=<QqWwf?)uW-"
    b"~$b+Z2te30|0^2;iCYNNC|+_004lJ0s(;10|B7&1OR~20RRBhh#P>?=K}z$0RVu~AOe8W0sw&00|0>10RRBh<^uq#0"
    b"00N7zySER;447+{{R5-"
    b";jo4pKmPxhGyne=X8ixO;V(e>AP0cbEC7H~6#oC0;WI$_1OR~20|0>10sw&0AP0cb4*vg_>L)<?APIod;o|_21p$E4"
    b"1OR~20|0>1LI8l$>N5u^=Q9W?1pfb*;E%w0Kmq_X0}z1H;R6S%;$tI=1pt831OR~2;0J)x`~Cly=_^3_;d20y;{ybd"
    b"h#-K{004lJA^?EW1OR~20RRBh9{>RH3<3aD;D5k*K>YtS=>r6j-"
    b"~$S(;R6Y(=m&t(0tkT80|0>11OR~20RRBh>H`3(9{>RHtO5X3AQ6C4UjP3W-"
    b"v9vX;r#zp=NnL|;EO={;U7S`=KuhU;EzE0#sC0|-~$P&{r&%!0DXYc0eyf{#tguk-"
    b"~$P&As7c6_x=Bu;U7S`NdNyA?E?nO3jl!9Apt-+-~$b+C=h_s0sw&00|0>11OR~20RRBhzySERA^|`-;R6P$-"
    b"~$M%1pt83!TtZ2YXtz2DFpzLUjYm20sj9~umArSATa<sAZ2oLZf_s}3IJtzbZBpLbS-"
    b"IaX><T?Zy-=fL?CWqZDn(CVPj<=V{dhAWFTT?AZ=k}WdLMlZg~JNaB^>BFLPyVW-oJPbZ2sJb#QY4FK}{iV=r@MY-T"
    b"TYX=Gn*VQ>I1aB^>BFLPyVW-"
    b"n)HWM6GzZ~$&^Aa!$Pav)=Gb!=oHVr3v}WpH#LX>K54AZ}r8Wpi+0V`Ts@055QIZ({&%Zy+yla&KcGV{dhAWFTT?AZ"
    b"TG^AZczOVIXc{ZDn(CVPj<g5C8xG000000eVsZ1b7|+8w?)+5C8xG7ytkOQ1$=+Q~&?~000006aWAKEC2uikoEunU;"
    b"qFB06`8QRt^9F5C8xGL;wH)*!BPaAOHXW000008~^|SSO5S3<n{mmbN~PV08I`ModTW#PTt)P000008~^|ScmMzZIQ"
    b"IYlFaQ7m06`8Qodli(O5WWL000006aWAKm;e9(NcR8#EC2ui074EBodTW#6aWAKumAu6T=xI}Kmq^&06`8god%u-"
    b"8~^|S$N&HUg!upei~s-"
    b"t06`8=oeG`_TMFLY4gf(57ytkO=l}o!@c94#m;e9(06`9r0i6<_5dZ)H7ytkO1OWg5Z2ABHzytsQ06`9r1D!ISF#rG"
    b"nM?*t8ASgs-VrgM+ATcs7GA=MJF*GS4F)}VPE-"
    b"(N9E^}yebaHfIVgN35Wq5P|E^=>VVRT^tE@fz6W^!R|WdJT?Z*6U5Zgc<u00000000000000000000000000000000"
    b"0000000000000000000000000000000000000000000000003jhEB0RR911^@s600000umC^+00000umAu600000)C"
    b"m9p0000000000000001ONa40000000000000005dZ)H0RR91G5`Po00000gbF|a00000gbDxv00000%m4rY0000000"
    b"000000000RR91000000RR910000082|tP0RR910ssI200000Pzyi+00000PzwM6000009033T0000000000000002m"
    b"k;8000000000000000BLDyZ0RR91FaQ7m000000000000000YzzPZ000009{>OV0000000000000000RR91000000R"
    b"R91000000RR910{{R300000000000000000000iwpn&00000EC2ui0000000000000000RR91000000000000000"
)

# By the machine's name, as uname has it.
INIT: Mapping[str, bytes] = {
    "x86_64": base64.b85decode(_X86_64),
    "aarch64": base64.b85decode(_AARCH64),
}
INIT_SHA256: Mapping[str, str] = {
    "x86_64": "f262259f6e3a991c153e497051810201834d18817f3e974aa5a733a92bb711bb",
    "aarch64": "70f827b779793a2b1b43382cf102e178123abe34b238c66ea97ce5cde6970c40",
}
# What the compiler was for, its version, the linker's.
BUILT_BY: Mapping[str, tuple[str, ...]] = {
    "x86_64": (
        "x86_64-linux-gnu",
        "gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
        "GNU ld (GNU Binutils for Debian) 2.40",
    ),
    "aarch64": (
        "aarch64-linux-gnu",
        "aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0",
        "GNU ld (GNU Binutils for Debian) 2.40",
    ),
}

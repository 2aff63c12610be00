"""The first process of a namespace, compiled from `init.c` by `make init`. Generated: the source
is what to read and to change."""

import base64
from collections.abc import Mapping

__all__ = ["BUILT_BY", "INIT", "INIT_SHA256", "SOURCE_SHA256"]

SOURCE_SHA256 = "5ba0fb2d2833953076845be471f86ca03fe081a834df285709ba4fb8e6547f0d"

_X86_64 = (
    b"e??420s#R400000000000suY$0RR91=m0<f00000KmY&$00000a18(e0000000000Kma%Z0{}n(1^@*B0RR911poj5"
    b"0000000000002M$00000002M$00000Aq@Zk00000Aq@Zk0000001yBG000000RR911^@s6Kn(x@00000Kpj8;00000"
    b"Kpj8;000000000000000U;qRF0000001yBG00000QRQ@G1^@s60000000000000000000000000000000000000000"
    b"00000000005C8xG00000NQvi2gXHk&5(EGM^hjg>LAmDu001%4MKRJvF~CfT$ViFS4+ZP)F~CTR7m5mvanL}3{t0&("
    b"NNd0fNR3JXNQn;*z7m7#Fi2z4NCD96*?{>hbp}ZP!bpi1!%2zIG08!>3IG5AOo_lT(n$ZoN%!%C!Z3(b4ChRV!byq1"
    b"NQ3$bcj8C^_ehDzNdL%4|Hq0{1n7uY|44<vb?!)w1Tn)&iTOcPMKRJziPTj^F~CTP^|%26002`+$H$!i|NpuH00;m~"
    b"iOvrNNr}Nog}`_pxB&nF08EL`NQv%DiQ*3hG15ti!MFne002md)(-_+Oo_-{L0rQ~gX|DRG15gbz_<Yb004<}Bn-"
    b"L)0000;jdUao4+Xz|0002!>Hh!!Nr~}AG15gbz_>^N001%ex&#0K01pL7g}`|WNQuTwiO=Y;|NsBPL03gF(ztK{002"
    b"Q&K~+IiNr}`k(p5-_%~ME;`$&n`NQ3MsNQrbL5J-vEOo>D!2t_f#4+ThzdoW0a|8ys~0RR91#zZ6-"
    b"FieX}2uO`|Bp67E!Vd*ViN;Kc&q#&94~X{w002mfa|lR_dk{grBmn>b=wJW;|455-"
    b"2uO>27)go7=uiLu|455_2uO(pBuI(==s*Ae|3xv$MKRJvF~CWQ$4rU$Oo`}BiOx)k$`1v;0RR91NQ*oqOo`|Z1-"
    b"=6S006oG00;m~iRes;{|^PYv;hDBzXSjP0KWhK|Nl&h$`1udg}`|tLAe6}001%4MKRJvF~CfT$ViFS4+Tj7$4G(y00"
    b"aO4b>v8kL?jS^H~@4?NR50X5JfT4MKQqWwEh48Nr}Peto{H0NQp!w80ez?|NlshR3sQN|4fO_NQp!wAh<38000jKNQ"
    b"uTsg}`~XzXJdO0O(Er|NlsXdmsRHH%N);NQvr5ivdW5z;q;lI8b#GfOr8{bqs)b0z`ENfOrEvbO%U@0!V|x2uOp$2<"
    b"y}_z(|P#NR4zP2tm3C0000*F~Bj>xDEgS0KWnN000jKMKRJzi##N_I{*LxOo`@5iRuppzXJdO0Et8-"
    b"7)XtDBpA2>0002G1ONa44+Xz}0002!&HVrWNQ3M^NQv@EiTg>3@<@s2G4|*N{r~?+iN?4>3_t*i5QNfn3`qaRNdLfy"
    b"R5btV?o5f&NQvj@;r##qNQuI@I1E4liU@?sbPP!U!btzXh)fj!>+VR2=1hs-"
    b"=mP!!|44(xK*Li=iSjY_NQ1<HiUc==z;p>n|Hg<!H2>@HNcY;fI}AVoiU@?sbPP!U#z_Cbh)gv9>+VR2<4B3$=y?49"
    b"|450#xI_#<0E!5N$#e`z|H4TBz=%u~|Lg8WG15gbz_<Yb006%N0000;iQW$dzkL7z0O;@g|NlW(K~_OkK~z;!NP+A)"
    b"0ssI^iw{YI`2r7y6$JnQNQ*}hNQwJQjYK49OpTNzumAu6NQp!wAV`gTBp^wHzzFEY`~Uw*i9q;GIl^`6N{vLz5J9;J"
    b"0000*F~C8(2mk;8NQnd_NR50XNHM@niOKV;NR4zPNVp9E006%c0000<iOEQb$`1udgS;e=00002bs$KMa~MdAdl*GA"
    b"(zrVS002mf6eJG?zkdJ#0O&jW|NliX(nT@AzD5i{0Jxn1006%a0000F1u^YNgS;e=000014~4q{006ir0000;iSI~>"
    b"?nsI14+Thx#Y~CMxN86a08EL_Oo_@51xbm=xNHCb01pL0y*K~>07!{MBnZC|00JOPiRcdnLB0S00w76=#7Kkq|8*0;"
    b"5dZ=(Oo`|Z1wp<500J;ciNsBX<arHDiRQmk3_t+s;s5{ubbT?>MKRJvF~GRA0RRArlq4_#001%4zW@LK|450~4+Tht"
    b"z<3ZyjkF{%0RR9&xjg^?0P7|(|3SF}0000n(nT@SMKQokiO5Ka)(-"
    b"_p|Hnvy{{RF40CnW+%0)5KMKQoJ(oBiSOo`_Y1xSPV{B-"
    b"Jzgd{Kl008OB1ONa<G15gbz_^_N006%M0002K2><{9Oo`$T1wjwG<{WcJzH$se0Kaz(KmfV~0002!fBOIbOo{%#j0`"
    b"{k=nwt>|44<vcoayBbR-DBpA0|%===Qt|44<vc@0R3#=o)*Kmh1Z{r~?(G15gbz%kOeod5s;za{_x0KNeL000jKLAj"
    b"*>002R{06+);zSj&u07!|~Oo_-"
    b"31xSU!cpbXh3_t)ux()yU0KVA_KmbgM$ViFT4+Thtz<CNtiN?R*3_t+uoiWlyG15gbz_^_N006%P0000;iPjGVOpBx"
    b">pa1{>O@-"
    b"tSge3t007#2OBydGB$w9sU{{sL>i9{p_Oo{4Ajj^B|KmbKC(nT@AOexASz)Xqf4+Thtz<vx#0l`Uu`TqX{0Cv^5pdC"
    b"N}NXN$c|Ns9@jWhvCf%*Uc0|0eN>8bz#0E>hqxB&nFNjb+4g_8gP0E>hqya50JNjb$2g@XV908BfKBv1hW0Cjmti-a"
    b"Vw0000;|G-"
    b"Fz!btzXfO!4@b@WJy&`61dB(MMg08BaXb7M%2yd<yy002R{00961OpSyjFaZDn=!5wG|4E6*=zIA8|4E6(=yUl0|45"
    b"6pB(MMg0J;DH002nG$DIHF|4E6#xJ&^601pL7g}@JlUH||8NXN#E|Ns9;i+m&q=nnb+|1r`<G15gbz_<ed002yh=SY"
    b"dx4+Sy6NR3n^Fi4GbBq&8Oz(|QiBrrj`2mk;8xDEgS05Sha$3!G3000314+Thrd?aW94}>NG002R{00;;GMKQp*Apr"
    b"mYNQ2M+x(EOO01pL8iNr{S?GJ>Z0000;i-"
    b"aVo0000?jjSXv0RR9<JuCqL0CqKL)wy{$o=7b$0RR9o_DqTINDr^jNWtnLNP)sE0RRB#!T10FOo{Hl1Pwp{NQuJe_x"
    b"Jz*iL4|r0RR9+G15gbz%kOlKpj8;xU&HO0KQlN002nG1)~!H01*HH08EK3yb}NbNXG@a6951K0000F1xbm)NQJ<8D!"
    b"4cR006%c0000;iPq~DMKRJvF~GPu0002L5dZ)HNQv%9iRuppNr}NsiO5U|;CVPrh2%(!d?awV0RR91NR6~4FaZDnMG"
    b"r{Kx&#0K07Ws<MKQociHsyL0RR9G1;2d&008N7`~Uw<g~@dsOp8P$Fi49GBuI@@7)XtLBxp#BbR;0?(D(oUy8{3K05"
    b"Q@<G15gbz(|XHBzQ=P*hq=i4+Thzyd;1C002md*bfCkzdZl|07-"
    b"++|455OBxo_)M2Tc1Kt(aq$3!GN0RR91LAVG2002mhd?YwXiQ0)oBsjhT0002E4*>uG$3!GV0RR914+Um}d?ZEy4}{"
    b"wQ002cXz(|SMOo`{ZfB*mhNR6~4umAu64+ThzTqJNsF~CfT_)LlSx&Z(H08EXPBrpL007#8=Bp43`NQJ-"
    b";j+g)d07*H)b=8YRBp5-y1ONa4MKRJvF~CfVq$EHA002mhbR--"
    b"|iQi0#@`*$w988O>BuD`O0Js4F002w_q$Dr_002w_tRy%A000jKOo`}4Y2@ew006n@0{{R>nMn8fOo{SA0mQfg0000"
    b")iDV=k4+XdZ0000)iA*FM4+V=vBp462{Da_s4}=H$|No7+fB*mh>HPWs|7L@HBt8I0i+m(#4}{D9|NlshoFp&-"
    b"002cX(nT@AF~GV&0000;iQW$dNQJ<E3crZ}008O2`Tze&jVu^UiO4~{J^%m!NcY%Ci3B7MwlheJJS0Ui(nT@AG15$l"
    b"=nn-*g}`|W54JN*iRes;&kqGi|HDW*>vh!WUH<?7ATa<sAZ2oLZf_s}3IJtzbZBpLbS-"
    b"IaX><T?Zy-=fL?CWqZDn(CVPj<=V{dhAWFTT?AZ=k}WdLMlZg~JNaB^>BFLPyVW-oJPbZ2sJb#QY4FK}{iV=r@MY-T"
    b"TYX=Gn*VQ>I1aB^>BFLPyVW-"
    b"n)HWM6GzZ~$&^Aa!$Pav)=Gb!=oHVr3v}WpH#LX>K54AZ}r8Wpi+0V`Ts@055QIZ({&%Zy+yla&KcGV{dhAWFTT?AZ"
    b"TG^AZczOVIXc{ZDn(CVPj<gFK}{iV=r@gb1!RUa&Bd8FK%;RY+-YBUvOz;07pYZIv^-SWnyVzZXhu-"
    b"E;24KEip7JWMyJ8GIcR2ATcs7GA=Lx04{TAb98caVPXI-bY*yS04{QGWMOn+04`#4a{w-"
    b"5Z*6U5Zgc<u0000000000000000000000000000000000000000000000000000000000000000000000000000000"
    b"03jhEB0RR911^@s600000=m0<f00000=l}o!00000PzwM60000000000000000RR910000000000000005dZ)H0RR9"
    b"1G5`Po00000I1E4l00000I1B&)00000=>Px#0000000000000000RR91000000RR910000082|tP2mk;80{{R30000"
    b"0Kpj8;00000Kn(x@00000U;qRF000000000000000AOHXW0000000000000009smFU0RR91FaQ7m00000000000000"
    b"0Aq@Zk00000CjbBd0000000000000000RR91000000RR91000000RR910{{R300000000000000000000NDTl00000"
    b"0CjbBd0000000000000000RR91000000000000000"
)

_AARCH64 = (
    b"e??420s#R400000000000syxF0RR91=m0<f00000KmY&$00000xDNmT0000000000Kma%Z0{}n(2LJ{D0RR911poj5"
    b"0000000000002M$00000002M$00000WDfuU00000WDfuU0000000031000000RR911^@s6Xb%7Y00000Xb(XE00000"
    b"Xb(XE000000000000000SO5e7000000003100000QRQ@G1^@s60000000000000000000000000000000000000000"
    b"00000000005C8xG00000-"
    b"~#}WQ~>~#AOIlL;sXGxMFD`)004l}K>$GcBmh7;gTMe$V;leye<T2L$p8RUpRfRNVE_PBAp`)CK>z^xzyn{_BLo1EL"
    b"jVBzApk%*A;17pA$&lS00ae_@BjZ7|APS0;{yPy<s$%*1OR~2M*)D+MhM56gaiPQhyVqPz=#K%0Kfnd0P!C<-"
    b"~$4x;sXY%A0z<r=>GpyVgLb)-~$Az00aQhqiA3_Llgiwp#T51fB*rD|APRLzyn{_=mP+%-"
    b"~$1w;R6Dy;sXP!;{yb$<O2n&0RRBhzyn{_;{yPy<pTn$A^?EW=K}$%2nT@D;R6GzU<`ng0s)}%0|0>11OR~20RRBhA"
    b"OiTe{d>Qu=>q_&2nc}E{R04z;R6S%;sXV$0RRBh1pt83<^uq#;R6Y(0sw&0AP0cb;Q#-Z-"
    b"~$G#{d>Wvzyn{_zyn{_{d>Nt1pt831OR~2{R04z;&T9zg8+ci;U56G;R67w00@B6(*OUL{d>Zwzyn{_27Ex1{d>Qu{"
    b"R04z;R6P$1pt831OR~20|0>10sw&0zzcxV#{d79`TzeH{d>Qu{R04z=l}ngzz={@@&Esq<pTk#C<B1f0RVu~f&hTh0"
    b"|0>11OR~20RRBhzySER{d>Qu;R67w-"
    b"~$D!{R04z@Bjaozyn{_{d>Ks=K}z$>H`9*{R04zpc8=7=>r3*1pt830|0>10sw&0<Ocz%1OR~20RVu~rT_nz;21#pz"
    b"yScX0S16l2nc}E<pe<aA^?EW0|0>11OR~2;e!A<;e!B?0RRBh;R67wU;y~G-"
    b"~$D!(*OUL;ebG?)&KvO>;nL*;RHbW;0!?d(f|LK>jMC);RHbW-"
    b"~$1w&Hw+G<^uq#1pt83;R6h+1OR~20|0>10sw&000V&1g#Z7S;R6e*1OR~20|0>1A^?EW00V&1e*gcM;R6P$1OR~20"
    b"|B7YVgP{B00V&1c>n*Gh&F)IfB=Bf;eSA~0sw&00|0>11OR~20RRBhfC2cnh5&%l;R6P$1pt831OR~20|0>10sw&0A"
    b"P0cb#smP7XaE0~-vAKt;r{<r;159g002NazyJU>;1EFhAO!%m;R6Y(-"
    b"~$P&BLDyt;9~%hF8}|R<^uq#;9~%hEC2tO;1dA(;9~%hDF6SL;R6P$;)4K@s33sS0|0>11OR~2;1>Y-"
    b"004l}0RRBh;R67w;Qar#U;u#9v;Y4Wf&f4{UqAtIK>+|%f&@T0Ut9rk;Q#<sf(Sr4Ul0LtfdBwhf($@8U-"
    b"STRKmY(#1cU(iAs_&eBmhA9B>w-"
    b"k9{>RP;zIzD1pt831Ob530|0>1K>&c#;1Gb)G5`OUKmkDc;R6b);sXh)s2hON0|0>11OR~20RRBh;R66FU;u#9O#lC"
    b"v;17UOR{#H({d>Eq;sXJy>jMC)=|cdK{R04z>H`6)-~$P&0RVu~1poh+;R67w0{{S!W2iKdV*milU}#}D-"
    b"~j+N;sXk*-~$P&`~Lrz0RRAyA%HZI;sXGxApii&AZTJZAOQe1;R6Y(-"
    b"~$V)694~~{d>izzyn{_AZZ~uAp`)C?*IQ6AZa2vLIePj^#A`C{d>2m;sXJy0RVu~=|cdK{R04z188A5;{pIR0001x0"
    b"E{$|0005Y188A5qXGam;sXN9-"
    b"~$P&+y4KT;{yPy0001x0I)QX000Ba0cc}5;Q;_O;sXh)1pt831OR~2K>&c#00@B6=l=hfpbvmj7XSa3BWWQxAp`)C="
    b"Kuc}BWWQxAp`)C=>Pv0A!#ExV*~(^?*IQ6|HBB;{d)kZ{R04z4FEv-zX<^GXaE3IpbvmjApigr>;nL*?xO*b00=<&1"
    b"^|H4;1dA(;DZ2>p#J}tz<DP4#smP7-"
    b"y{I>VgLVB1Ob53;v)f(1pt830|0>1Ap(HXzz~4a|NjK3tqA~;|NjN4zyAN1jSUTp=1V~N1OR~2-"
    b"v|Kl0RaG1fek?Upc{bF;{y$<f?)uWwf_H?;17UO<o^Gc0ssJz0|0>1Lbx=M;Q@fs;1qz;t^WU)-vj{hfe-"
    b"*xh!ud+004l}0RVu~0sw&00|0>11OR~20RRBh=oNs{?*jm;004l}0RRBhC>DUy>H`3(004l}0RRBh@&f>>AOe8Wh#P"
    b">?Kmerj0RRBh<^uq#9|QogfdK$iAOe8WKmexl0RRBh<^uq#M*ybM-"
    b"v9vd>Hq*#0001x;R6P$0PHl8i2whWM*yVK`TzeHfCK<kh&F)I004l};eSA~0sw&00|0>11OR~2|1$x(0RRBhfC2cn2"
    b"LOQ5;R6S%1pt831OR~20|0>10sw&0AP0cb=L7(ebpHRB{{Rs2;r{<r-~$G#;ll)xh#-"
    b"K{0sw&00|0>11OR~20RRBh9}obs0RR6~;WI(GA{YR2Av{RaKmY;}AOL_Gu>b!T1pt831OR~20|0>1A_0KXApn5V;1q"
    b"z;T>k%;#{%Fsf&hTh0RRAy0001xA!s#`0DLu(UH<=<;R6b)0001x0MIp&E&u<Q;R67w-"
    b"~jly;R6z?0001x030@vC;$JK;R67wfB^Wm0001x0BAOmz5o9g1pt831OR~20|0>1A^?EW!32QP;1qz;KmPxh0|1E92"
    b"nB%B004l}0RRAy0sw&0A^bLx0|B7&1OR~20RRBh;R67wKmqu-"
    b"0001x00=jc;sXGx0RRAy!vTQOAp|#(0RRBh;R67wpaA%`0001x030`wpa1_C4*-"
    b"DD1pt831OR~20|0>10sw&0fdGKg;1qz;ApZZC=TkuWM+5-0>pMXCfdBxIB>+E>1^|H4=|@1a>O+6B-"
    b"~$J$p#TPpA^`@==m&t(0|0>11OR~20RRBh9{>RHjQ{{t#sC0|-vA2hss8^|;R6M#;735R-"
    b"v9vXpaTF@rT_+u;adRtKL7^ng989m;R6S%1pt831OR~20|0>10sw&0AP0cb{r&%!AON7!<HG=v;-"
    b"dhO1pt831Ob530RVu~;Qs=t;1Gb)^!@*r;5R_|palT6;S)gl;{y$<<QqWwf?)uW-~$e-JO2Nd!2p1g-"
    b"~$V)CI0`H;KKruy8Zu`>H`3(;KKruxBdT@=>q_&;KKruwEh2=;afoY<pTh!0w93W<iiA!;{yV!Xe5BrU<`ng0RRBhA"
    b"OZlj;JZP&UjYE?!2tkN;J-n+KLG&iVF3VC;HyCSzW@O10RaG1;9EfX00aP$;R67w00aP$0^nabqW}Lj!vFslVGe+j-"
    b"2eX<0|0^2;iCYNNC|+_004lJ0s(;10|B7&1OR~20RRBh>H`3(4+a3V;8#HT>%#<*AFu@R2?79AA~%oH0I&qn;>NS`0"
    b"RVu~;(Y=eLVN(5-~$V)Li}LULa+ppmi_;i;R6e*;sXGx0001x0I)ZavHky-fB*oH0H8gQApn5VB?5rbXf}Y-"
    b"0sw&00|0>11OR~21rPxF3j_qI0SkcA?=u0p0RRBh<^uq#zySER-"
    b"~$D!h#P>?0RVu~0RRBh<^uq#UjYE|!Kgs`iU9yr;5$J1UjYE|L9vD!v;F^<xc>hah#P>?AOe8W0RVu~0sw&00|0>1@"
    b"&Er9rt<%^;Xgq61OR~20|0>10sw&0AP0cb1pt83fBpZLEC7H~;X^?A1OR~20|0>10sw&0AP0cbc>VvE>o-"
    b"98APIod;o|_21p$E41OR~20|0>1LI8l$>oW%_>N5x_ZvFq4;E%w0Kmq_X;==-"
    b"w;R6b)1pt831OR~20}z1H;0J)xW&Qt`={rFA;d20y<HH1zh#-"
    b"K{004lJA^?EW1OR~20RRBh9{>RH3<3aD;D5k*K>YtS=feb%-"
    b"~$V);R6S%=m&t(0tkT80|0>11OR~20RRBh=>q_&9{>RH3<CgEAQ6C4ng0J59{>jH;r#zp>K{|7;G;nK;U7S`N&x_i;"
    b"HN<O=KuhU-~$P&XZ`<|0DXYc0eyf{=M2D_-~$P&Ash-DVg3J?;R6OL-~$P&Uj6@<;U7S`(Ek4y?E?nO3jl!9;Q&B6-"
    b"~$b+C=h_s0sw&00|0>11OR~20RRBhzySER;s8K7;R6P$-"
    b"~$M%1pt83DE<GJYXtz2=L7(eKLHEt0sj9~tpEQPATa<sAZ2oLZf_s}3IJtzbZBpLbS-"
    b"IaX><T?Zy-=fL?CWqZDn(CVPj<=V{dhAWFTT?AZ=k}WdLMlZg~JNaB^>BFLPyVW-oJPbZ2sJb#QY4FK}{iV=r@MY-T"
    b"TYX=Gn*VQ>I1aB^>BFLPyVW-"
    b"n)HWM6GzZ~$&^Aa!$Pav)=Gb!=oHVr3v}WpH#LX>K54AZ}r8Wpi+0V`Ts@055QIZ({&%Zy+yla&KcGV{dhAWFTT?AZ"
    b"TG^AZczOVIXc{ZDn(CVPj<gFK}{iV=r@gb1!RUa&Bd8FK%;RY+-"
    b"YBUvOz;00000000005C8xG000000eVsZ1b7|+8w?)+5C8xG7ytkO$nyXHQ~&?~000006aWAKEC2ui2=o8{U;qFB06`"
    b"8QRt^9F5C8xGL;wH)Q1k!)AOHXW000008~^|SSO5S3T=W0`bN~PV08I`ModTW#PTt)P000008~^|ScmMzZu=D@_FaQ"
    b"7m06`8Qodli(O5WWL000006aWAKm;e9(!1MqAEC2ui074EBodTW#6aWAKumAu6)bs!U6aWAK06`8AodTW#8~^|S$N&"
    b"HU(DVQQH~;_u07(uIodTW#L=FJm-T(jq6aWAK=l}o!==1;oGy(ts06`8god%u-8~^|S009611or>`i~s-"
    b"t06`8=oeG`_TMFLY4gf(57ytkOAOQdXaQ6TIm;e9(06`9r0i6<_5dZ)H7ytkOJOKaz?Dqfv<OTo$06`A01VNofo<#r"
    b"vM?*t8ASgs-VrgM+ATcs7GA=MJF*GS4F)}VPE-"
    b"(N9E^}yebaHfIVgN35Wq5P|E^=>VVRT^tE@fz6W^!R|WdJT>b8`SLV{dJ3Wo~o;000000000000000000000000000"
    b"00000000000000000000000000000000000000000000000000000000003jhEB0RR911^@s600000=m0<f00000=l"
    b"}o!00000I1B&)0000000000000001ONa40000000000000005dZ)H0RR91G5`Po00000APqnO00000APoQj00000=>"
    b"Px#0000000000000000RR91000000RR910000082|tP0RR910ssI2000005Dq{9000005DowU00000Q~>}00000000"
    b"000000002mk;8000000000000000BLDyZ2mk;80{{R300000Xb(XE00000Xb%7Y00000SO5e70000000000000002m"
    b"k;8000000000000000C;$Ke0RR91FaQ7m000000000000000WDfuU000009{>OV0000000000000000RR91000000R"
    b"R91000000RR910{{R300000000000000000000gAV`z00000F#rGn0000000000000000RR91000000000000000"
)

# By the machine's name, as uname has it.
INIT: Mapping[str, bytes] = {
    "x86_64": base64.b85decode(_X86_64),
    "aarch64": base64.b85decode(_AARCH64),
}
INIT_SHA256: Mapping[str, str] = {
    "x86_64": "8993d047117035e28ce0b0738d69bbe5aa8b79b14c0aa5560c768cd474b62695",
    "aarch64": "a685884661fb755f4010558141f8c451467f6f53ff0401cc7acc97308dc89ad9",
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

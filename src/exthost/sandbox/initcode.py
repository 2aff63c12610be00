"""The first process of a namespace, compiled from `init.c` by `make init`. Generated: the source
is what to read and to change."""

import base64
from collections.abc import Mapping

__all__ = ["BUILT_BY", "INIT", "INIT_SHA256", "SOURCE_SHA256"]

SOURCE_SHA256 = "95a0f940cfc7f3ac48f6a87373852a6226f89c6577628c443e229a923c162b22"

_X86_64 = (
    b"e??420s#R400000000000suY$0RR91=m0<f00000KmY&$00000fD8Zt0000000000Kma%Z0{}n(1^@*B0RR911poj5"
    b"0000000000002M$00000002M$00000F$@3z00000F$@3z0000001yBG000000RR911^@s6Knwr?00000Kpa2-"
    b"00000Kpa2-"
    b"000000000000000000C40000001yBG00000QRQ@G1^@s6000000000000000000000000000000000000000000000"
    b"000005C8xG00000NQvi2gXHk&0R#X5^hjg>LAmDu001%4MKRJvF~CfT$ViFS4+ZP)F~CTR7m5mvanL}3{t0&(NNd0f"
    b"NR3JXNQn;*z7m7#Fi2z4NCD96*?{>hbp}ZP!bpi1!%2zIG08!>3IG5AOo_lT(n$ZoN%!%C!Z3(b4ChRV!byq1NQ3$b"
    b"cj8C^_ehDzNdL%4|Hq0{1n7uY|44<vb?!)w1Tn)%gX|DRG15gbz_<Yb004<}Bn-"
    b"L)0000;jdUao4+Xz|0002!LI3~%Nr~}AG15gbz_>^N001%ex&#0K01pL7g}`|WNQuTwiO=Y;|NsBPL03gF(ztK{002"
    b"Q&K~+IiNr}`k(p5-_%~ME;`$&n`NQ3MsNQrbL5J-vEOo>D!2t_f#4+ThzdoW0a|8ys~0RR91#zZ6-"
    b"FieX}2uO`|Bp67E!Vd*ViN;Kc&q#&94~X{w002mfa|lR_dk{grBmn>b=wJW;|455-"
    b"2uO>27)go7=uiLu|455_2uO(pBuI(==s*Ae|3xv$MKRJvF~CWQ$4rU$Oo`}BiOx)k$`1v;0RR91NQ*oqOo`|Z1-"
    b"=6S006oG00;m~iRes;{|^PYv;hDBzXSjP0KWhK|Nl&h$`1udg}`|tLAe6}001%4MKRJvF~CfT$ViFS4+Tj7$4G(y00"
    b"aO4b>v8kL?jS^H~@4?NR50X5JfT4MKQqW4F3QBNr}Pe1pfd3NQp!w80h-"
    b"_|NlshR3sQN|4fO_NQp!wAh<38000jKNQuTsg}`~XzXJdO0O(Er|NlsXdmsRHH%N);NQvr5ivdW5z;q;lI8b#GfOr8"
    b"{bqs)b0z`ENfOrEvbO%U@0!V|x2uOp$2<y}_z(|P#NR4zP2tm3C0000*F~Bj>xDEgS0KWnN000jKMKRJzi##N_I{*L"
    b"xOo`@5iRuppzXJdO0Et8-"
    b"7)XtDBpA2>0002G1ONa44+Xz}0002!CH?>ZK~zYI@=1yEG4@qcNQwJMgX};_iR4U)=jd1c|Nlsd#<*__Kmdvmgwk{j"
    b"NdLx2|G<b;H2>@FOo`G=iRb7t{r~?-"
    b"iNUyK3qSyh5QNfn4N3pONdLe>h*S*!>+MA`(nT@AxB&qG0J;GH2mnaO$DIHF|45164+Thx!$^g|cpta{0000;iQi0#"
    b"=1hso4+SyONQuL^0{{R3NQu@D1xSO$KuC$$TU|k1!&69!@-"
    b"g;EgT#P}1UH1hbO}iR#)w2T|LgEb_u9B<3qSyh2!zRW3`qaRNdLfyOf>)N?nsH_NQvL*iTwZnNQuI@aSK2IiU@?sbP"
    b"P!U!btzXh)fj!>+VG{(nT@AxB&nF0KWnN002md-VX)8eE<Le=m7lx|3OzlRzX!kR8><*f$S&(002yj4@rah0uP2_1O"
    b"Na?i$@ShiTg~AL?mELjg%yy0000;i9{qANR50X7)gV`2<X=P|NlveK=@5L&~@objYP{3x(EOO07#8|BtSvB2mk;8NQ"
    b"nd_NQu!gz(|dBBtY}4MKQp*4FCWDzYzcc07!|-"
    b"4+Thryd;PK0007YAV`gK7)XnI7)3GCxH|v<07#1zBo76@e*gdg=urFr|3xv<MKQp>a|=KKxSaq10KX3a000jKNQ1m2"
    b"hyVZp0S|@C0RRBFYXATMNQu`-"
    b"iPjGVNQuR`YybcN4+TNIH~;_uNr}e45dZ=pOo`wR1wp+400JOMiNQ#N`2TeizYzceFieTy4+TNJ0006oNr}Ntg~@ph"
    b"Oo`6FfD1qX=?Vb=0CamX(nT@SMKQp*v;hDBiIgND0RR9o(!T%y|Nlsd*AE3qg}`_ZNR6~4AOQdXyFCB^0P7_&|GNVK"
    b"001%4MKRJvF~CTP*hq=i4+Tj7$4G(y00aO4b>!>JMKRJvF~Bj>NQu}?iO&xONQ3zNbn1(QBp?9*0O=zH002R}0RR91"
    b"MKRJvF~CfT%D9~X006!T0000?iRTXmK@Ym+9CK~Hp9??$xB&qG0J;GH2mnaO$DIHF{|^O7iN{EVz<3<Kv<pB0x&#0K"
    b"08EMC4+Xdb0000?iOx)k$`1udiSEC-"
    b"3qSzqy!`+FNQJ<75=@Eqzsw6j0O+dx|NlsZz<CWwiN?R*3qSzqMg9N(MKRJvF~Bj>xSaq10KX;x006!L0000F1wpx`"
    b"0000%x&S~30KNnaKmbUI*G!4X4+Thtz<3?H2Mj;}LAnkA006!Q3_t)(iO5Ka*AE3qg}`|VNQuV33=BX3>zy&uMKRJv"
    b"F~GQ;0002L1ONa4NQu@D1xSmmB$xmI07!-"
    b"H4}=~8002yjY$Rw!G08!^|NjF3Oo`%2jj=!+KmbKC(nT@AOexASz(|Sj4+Thtz<vx#0l`Uu`TqX{0Cv^5Kpa2-"
    b"NXN$c|Ns9@jWhvCf%*Uc0|0eN>8bz#0E>hqr~v=~Njb+4g_8gP0E>hqtN{Q3Njbz1g@XV908BfKBtQWG0Cjmti-aVg"
    b"0000;|G-"
    b"Fz!btzXfO!4@b@WJy&`61dB%lBQ08BaXb74r0yd<Ci002R{00961OpSyjAOQdX=#TjS|4E6*=!f|K|4E6&=zsYC|45"
    b"6pB%lBQ0J;DH002nG$DIHF|4E6#xJ&^601pL7g}@JlUH||8NXN#E|Ns9?iSOvd`2YVg(nT@SMKQp*0{{R3NQv)AiPj"
    b"GVF~CJJ<VcNFBq%|;2mk;8NQp!wC`gTTBp^jGz)XqfNXJAZAOHXX0JshS000jKNP~PNU;uP*LAn442mnPfz_=j+002"
    b"mX&;Pmz0000F1w}E^NQuS25dZ)HxHtd+08EMIOo`$T1xbm)ND1h9GDwB(NQ-"
    b"<VXt)6Y002mhv?L$_002Y}NX@zg0000)iHsy50RR9G1;2d&008MB{Qv(=g~@dsOp8P$C`gM8BuI@@7)XtLBw$F3bR-"
    b"z)Jox|ry8{3K07Ws<MKQogi+m(-NQu}F1xSm0BzQ=P*bfCkzdZl|07-"
    b"++|3SO~0000;i$o+~G24l3BsfJe(#J$3Gywnr071A20000;jeI09NQv5sL?kf20ssI2xDNpU0LMfmJOKaz01pLbgM1"
    b"`D01t%80000*F~CTP*hq=*x_|%x07#9rB%lBQ01pL7i(DjVMKQokiTF&3_e_c6OpTNzAOQdXNR4zP5Dx`Ng}@JvhyV"
    b"ZpNjbrF*Na3X5J9~J0000*G15gbz)XvbBrpL007#8=Bos)A-"
    b"%N?>i9{q6NQ<l_H~|0vOo`x31B@gf0RR9<1FR${0RR9G1xShLMQO?C0{{TI=mP)%NSR3Y`AmuGK>@)`iQq(uOe7Q!1"
    b"&c%^5D&KegW!J;gv<K>|BbkS0002#!219HW`lerHULPAd?a8Ggx>!D|45CTBp?9*07Ws<MKQoJz`8&H002md-"
    b"VX&xg}{Fbzli_<0O^MM|Nlq<*g?HM0000;i3B7}iO5Lz*hq;)BnS_-Gf0bkBnU+@(nT@AG15$l=nn-"
    b"*g}`|W54JN*iRes;&kqGi|HDW*93*wp>1zJ}{~$2{Iv{0oa&B)R015zQcywrQb960fZfSG?Zf_t^NkkxSVQpn|aA9L"
    b"*AY*TJY-Au}Wgu-~WMu#^aB^>BFLPyVW-oJPbZ2sJb#QY4WMyu7055QIZ(}cWWo%|Ib!lW@ZDDW#FK}{iV=r@MY-"
    b"TTKX=Gn*VQ>I$Zy<GZWpW^6Z*^>BAYx@8Yh`eBAZczOVIXc{ZDn(CVPj<gF90uaa&Kb*Zf_tjaB^>BAY*TJY-Au}Wg"
    b"uu_WFTp7AYmYGVQpn|aA9L*07pYZIv^-SWnyVzZXhu-E;24KEip7JWMyJ8GIcR2ATcs7GA=Lx04{TAb98caVPXI-bY"
    b"*yS04{QGWMOn+04`#4a{w-"
    b"5Z*6U5Zgc<u0000000000000000000000000000000000000000000000000000000000000000000000000000000"
    b"03jhEB0RR911^@s600000=m0<f00000=l}o!00000eF^{o0000000000000000RR910000000000000005dZ)H0RR9"
    b"1G5`Po00000WeY$600000WeWfR00000%m4rY0000000000000000RR91000000RR910000082|tP2mk;80{{R30000"
    b"0Kpa2-"
    b"00000Knwr?00000000C4000000000000000AOHXW0000000000000009smFU0RR91FaQ7m000000000000000F$@3z"
    b"00000CjbBd0000000000000000RR91000000RR91000000RR910{{R300000000000000000000SPTFF00000CjbBd"
    b"0000000000000000RR91000000000000000"
)

_AARCH64 = (
    b"e??420s#R400000000000syxF0RR91=m0<f00000KmY&$00000xDEgS0000000000Kma%Z0{}n(2LJ{D0RR911poj5"
    b"0000000000002M$00000002M$00000WDWoT00000WDWoT0000000031000000RR911^@s6WDWoT00000WDY?900000"
    b"WDY?90000000000000001ONm8000000003100000QRQ@G1^@s60000000000000000000000000000000000000000"
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
    b"v;17UOR{#H({d>Eq;sXJy>jMC)=|cdK{R04z>H`6)-~$P&0RVu~1poh+;R67w0{{S!V>mI9V*milU}#}D-"
    b"~j+N;sXk*-~$P&`~Lrz0RRAyArLW<;sXGxApii&AZTJZAOQe1;R6Y(-"
    b"~$V)694~~{d>izzyn{_AZZ~uAp`)C?*IQ6AZa2vLIePj^#A`C{d>2m;sXJy0RVu~=|cdK{R04z188A5;{pIR0001x0"
    b"30!q0005Y188A5qXGam;sXN9-"
    b"~$P&+y4KT;{yPy0001x06;O3000Ba0cc}5;Q;_O;sXh)1pt831OR~2K>&c#00@B6=l=hfpbvmj7XSa3BWWQxAp`)C="
    b"Kuc}BWWQxAp`)C=>Pv0A!#ExV*~(^?*IQ6|APq8{d)kZ{R04z4FEv-"
    b"zX<^GXaE3IpbvmjApigr>;nL*?t=l500=<&1^|H4;12-#;9~%hp#J}tz<DP4#smP7-yi_-VgLVB<O2q(;sXJZ1pt83"
    b"0|0>1Ap(HXzz~4a|9=FjtqA~;|9=IkzyAN1jSUTp=0`yJ1OR~2-"
    b"v|Kl0RaG1fek?Upc{bF;{y$<f?)uWwf_H?;17UO<o^Gc0ssJz0|0>1LP#-@;Q@fs;1qz;t^WU)-"
    b"vj{h0T2LG=oNs{004l}0RVu~0sw&00|0>11OR~20RRBhC>DUy>H`3(004l}0RRBh?*jm;AOe8Wh#P>?Kmerj0RRBh<"
    b"^uq#9|QogfdK$iAOe8WKmexl0RRBh<^uq#M*ybM-"
    b"v9vd>Hq*#0001x;R6P$0DLi#jQ{_aM*yVK`TzeHfCK<kh&F)I004l};eSA~0sw&00|0>11OR~2|04mp0RRBhfC2cn2"
    b"LOQ5;R6S%1pt831OR~20|0>10sw&0AP0cb=L7(ec>e#F{{Rs2;r{<r-~$G#;e!N`h#-"
    b"K{0sw&00|0>11OR~20RRBh9}obs0RR6~;Uhu0A{YR2Av{RaKmY;}AOL_GwEzDX1pt831OR~20|0>1A_0KXApn5V;1q"
    b"z;VE+G?#{%Fsf&hTh0RRAy0001xA^0(o01PsbVgCP@;R6b)0001x0AMnaG5`OU;R67w-"
    b"~jly;R6q<0001x0IV{REC2tO;R67wfB^Wm0001x0QfSIz5o9g1pt831OR~20|0>1A^?EW!32QP;1qz;L;nAl0|1E92"
    b"nB%B004l}0RRAy0sw&0A&fJT0|B7&1OR~20RRBh;R67wKmqu-"
    b"0001x0GKn8;sXGx0RRAy!vTQOA(S(b0RRBh;R67wfB^Wm0001x0IV~Spa1_C1pt831OR~20|0>10sw&0fdGKg;1qz;"
    b"CI0`H=TAWSM+5-0>o-98fdBxIC6GCh1^|H4=|@1a>O+6B-"
    b"~$J$p#TPpA^`@==m&t(0|0>11OR~20RRBh9{>RHjQ{{t#sC0|-vA2hss8^|;R6M#;735R-"
    b"v9vXpaTF@rT_+u;Zp$lKL7^ng989m;R6S%1pt831OR~20|0>10sw&0AP0cb0{;J(AON7!<D&qP;)4K@1pt831Ob530"
    b"RVu~;C}+C;1Gb)`ThTw;4?t^Km`D`;SWIh;{y$<<QG8sf?)uW-~$e-K>q)i!2p1g-"
    b"~$V)D*peM;DZ8@zy1H0>H`3(;DZ8@y#4=|=>q_&;DZ8@x&8l_;Zs2Q<pTh!0w93W<bwo};{yV!Xe5BrU<`ng0RRBhz"
    b"yScY;HyEoUjYE?VF3VC;IBcsKLG&i0RaG1;G;nKzW@O1p#T6>;Zs2QAQV72;Q#+M#sB{oVGe+j-"
    b"~ay?0|0^2;e!B?NC|+_004lJ0s(;10|B7&1OR~20RRBhh#P>?=K}z$0RVu~AOe8W0sw&00|0>10RRBh<^uq#000N7z"
    b"ySER;5R_|{{R5-;jo4p-"
    b"TnWU;{N{^2KfK9;X6S2AP0cbEC7H~vi<*;;Xgq61OR~20|0>10sw&0AP0cbto{F&>N7z3APIod;llut1p$E41OR~20"
    b"|0>1LI8l$>N5r@=Q9T>qW%Au;D5k*Kmq_X;)4Q_;R6S%1pt831OR~20}z1H;0J)xnf?El={G?6;Zp#S<AVf|h#-"
    b"K{004lJA^?EW1OR~20RRBh9{>RH3<3aD;BUZrK>YtS>4OB3-"
    b"~$S(;R6Y(=m&t(0tkT80|0>11OR~20RRBh>H`3(9{>RHtO5X3AQ6C4&Hn!v-"
    b"v9vX;r#zp=NnR~;G01C;TJ%;=KuhU;GaPG#sC0|-~$P&oBjWn0DXYc0eyf{#tguk-"
    b"~$P&As7c6mHq#h;TJ%;1ONXQ?E?nO3jl!9Apt-+-~$b+C=h_s0sw&00|0>11OR~20RRBhzySERA^|`-;R6P$-"
    b"~$M%1pt83U;Y1=YXtz2DFpzLUjYm20sj9~umArSATa<sAZ2oLZf_s}3IJtzbZBpLbS-"
    b"IaX><T?Zy-=fL?CWqZDn(CVPj<=V{dhAWFTT?AZ=k}WdLMlZg~JNaB^>BFLPyVW-oJPbZ2sJb#QY4FK}{iV=r@MY-T"
    b"TYX=Gn*VQ>I1aB^>BFLPyVW-"
    b"n)HWM6GzZ~$&^Aa!$Pav)=Gb!=oHVr3v}WpH#LX>K54AZ}r8Wpi+0V`Ts@055QIZ({&%Zy+yla&KcGV{dhAWFTT?AZ"
    b"TG^AZczOVIXc{ZDn(CVPj<g5C8xG000000eVsZ1b7|+8w?)+5C8xG7ytkO$n*dIQ~&?~000006aWAKEC2ui2=xE|U;"
    b"qFB06`8QRt^9F5C8xGL;wH)Q1t)*AOHXW000008~^|SSO5S3T=f6{bN~PV08I`ModTW#PTt)P000008~^|ScmMzZu="
    b"M}`FaQ7m06`8Qodli(O5WWL000006aWAKm;e9(!1VwBEC2ui074EBodTW#6aWAKumAu6)b#)V6aWAK06`8AodTW#8~"
    b"^|S$N&HU(DeWRH~;_u07(uIodTW#L=FJm-T(jq6aWAK=l}o!==A^pGy(ts06`8god%u-8~^|S009611o!{{i~s-"
    b"t06`8=oeG`_TMFLY4gf(57ytkOAOQdXaQFZJm;e9(06`9r0i6<_5dZ)H7ytkOJOKaz?Dzlw2nGNE06`9*1VNodo<jf"
    b"tM?*t8ASgs-VrgM+ATcs7GA=MJF*GS4F)}VPE-"
    b"(N9E^}yebaHfIVgN35Wq5P|E^=>VVRT^tE@fz6W^!R|WdJT>b8`SLV{dJ3Wo~o;000000000000000000000000000"
    b"00000000000000000000000000000000000000000000000000000000003jhEB0RR911^@s600000=m0<f00000=l"
    b"}o!00000TnhjI0000000000000001ONa40000000000000005dZ)H0RR91G5`Po00000L<~Rx00000L<|4`00000%m"
    b"4rY0000000000000000RR91000000RR910000082|tP0RR910ssI2000005Dh>8000005DfqT00000Q~>}00000000"
    b"000000002mk;8000000000000000BLDyZ2mk;80{{R300000WDY?900000WDWoT000001ONm80000000000000000R"
    b"R91000000000000000C;$Ke0RR91FaQ7m000000000000000WDWoT000009{>OV0000000000000000RR91000000R"
    b"R91000000RR910{{R300000000000000000000gAM=y00000F#rGn0000000000000000RR91000000000000000"
)

# By the machine's name, as uname has it.
INIT: Mapping[str, bytes] = {
    "x86_64": base64.b85decode(_X86_64),
    "aarch64": base64.b85decode(_AARCH64),
}
INIT_SHA256: Mapping[str, str] = {
    "x86_64": "03f96bf567f8bd0e1aa6771ff938393d0646618060cb2787d9ab8f72f788d123",
    "aarch64": "38cab653fbb009c93ce4c7cc6530df4cafa508484896cc41cb6e57bbf13878d9",
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

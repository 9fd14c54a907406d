#include "textflag.h"

// func masksAVX2(dst *uint64, src *byte, blocks int, delim, quote uint8)
// One bit of *dst for every byte of a block of 64 that is delim, quote or a line feed.
TEXT ·masksAVX2(SB), NOSPLIT, $0-26
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         blocks+16(FP), CX
	VPBROADCASTB delim+24(FP), Y0
	VPBROADCASTB quote+25(FP), Y1
	MOVL         $10, AX
	VMOVD        AX, X2
	VPBROADCASTB X2, Y2

loop:
	TESTQ     CX, CX
	JE        done
	VMOVDQU   (SI), Y3
	VMOVDQU   32(SI), Y4
	VPCMPEQB  Y0, Y3, Y5
	VPCMPEQB  Y1, Y3, Y6
	VPCMPEQB  Y2, Y3, Y7
	VPOR      Y5, Y6, Y5
	VPOR      Y5, Y7, Y5
	VPCMPEQB  Y0, Y4, Y8
	VPCMPEQB  Y1, Y4, Y9
	VPCMPEQB  Y2, Y4, Y10
	VPOR      Y8, Y9, Y8
	VPOR      Y8, Y10, Y8
	VPMOVMSKB Y5, AX
	VPMOVMSKB Y8, DX
	SHLQ      $32, DX
	ORQ       DX, AX
	MOVQ      AX, (DI)
	ADDQ      $64, SI
	ADDQ      $8, DI
	DECQ      CX
	JMP       loop

done:
	VZEROUPPER
	RET

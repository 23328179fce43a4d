package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"
)

// slotsRotations are the rotations of rows whose results are compared.
var slotsRotations = []int{1, 5, -3}

// slotsSet is a ring of degree 2^logN with slots modulo t.
func slotsSet(t uint64, logN int) (bgv.Parameters, error) {
	return bgv.NewParametersFromLiteral(bgv.ParametersLiteral{
		LogN: logN, LogQ: repeat(50, 4), LogP: []int{50}, PlaintextModulus: t, Xs: uniformTernary,
	})
}

// slotsLine is what became of given slots, to be compared with another library's.
type slotsLine struct {
	Op    string   `json:"op"`
	Slots []uint64 `json:"slots"`
}

// slotsResults encrypts slots that follow from their places, and decrypts the result of each
// operation. First are the coefficients that the first input is encoded to.
func slotsResults(params bgv.Parameters) ([]slotsLine, error) {
	count, t := uint64(params.MaxSlots()), params.PlaintextModulus()
	x, y := make([]uint64, count), make([]uint64, count)
	for i := range count {
		x[i] = (31415926535*i*i + 8979323846*i + 2643383279) % t
		y[i] = (27182818284*i*i + 5904523536*i + 287471352) % t
	}
	elements := []uint64{params.GaloisElementForRowRotation()}
	for _, k := range slotsRotations {
		elements = append(elements, params.GaloisElement(k))
	}
	b, err := newExactBench(params, x, y, elements)
	if err != nil {
		return nil, err
	}
	encoded := params.RingT().NewPoly()
	if err := b.encoder.EncodeRingT(x, rlwe.NewScale(1), encoded); err != nil {
		return nil, err
	}
	lines := []slotsLine{{"coefficients", encoded.Coeffs[0]}}
	show := func(op string, run func(*rlwe.Ciphertext) error) error {
		ct := b.ciphertext()
		if err := run(ct); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		found, err := b.decrypted(ct)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		lines = append(lines, slotsLine{op, found})
		return nil
	}
	failed := errors.Join(
		show("add", func(ct *rlwe.Ciphertext) error { return b.evaluator.Add(b.cx, b.cy, ct) }),
		show("bgv_mul", func(ct *rlwe.Ciphertext) error { return b.evaluator.MulRelin(b.cx, b.cy, ct) }),
		show("bfv_mul", func(ct *rlwe.Ciphertext) error {
			return b.evaluator.MulRelinScaleInvariant(b.cx, b.cy, ct)
		}),
		show("swap_rows", func(ct *rlwe.Ciphertext) error { return b.evaluator.RotateRows(b.cx, ct) }),
	)
	for _, k := range slotsRotations {
		failed = errors.Join(failed, show(fmt.Sprintf("rotate %d", k), func(ct *rlwe.Ciphertext) error {
			return b.evaluator.RotateColumns(b.cx, k, ct)
		}))
	}
	return lines, failed
}

// printSlots prints every value of the results modulo 65537.
func printSlots() error {
	params, err := slotsSet(65537, 12)
	if err != nil {
		return err
	}
	lines, err := slotsResults(params)
	output := json.NewEncoder(os.Stdout)
	for _, line := range lines {
		err = errors.Join(err, output.Encode(line))
	}
	return err
}

// factsHeader says what printFacts prints.
const factsHeader = `# What slots of integers become in Lattigo %s, read by peer_slots.rs. Made in benches/peers/lattigo:
#   go run . -facts > ../../../crates/sudare/tests/data/lattigo_slots.csv
# The plaintext modulus t, log2(N), and: root, the 2N-th root of unity modulo t at whose powers slots are
# values; or what was done, the sum of value i times i + 1 modulo 2^61 - 1, and the first 8 values.
`

// shownValues is how many values of a result are facts themselves.
const shownValues = 8

// checksum is a number that hardly any other values have.
func checksum(values []uint64) uint64 {
	sum := uint64(0)
	for i, value := range values {
		sum = mulAddMod(value, uint64(i)+1, sum, 1<<61-1)
	}
	return sum
}

// printFacts prints what is left to check of the results for a small, a usual and a large modulus.
func printFacts() error {
	fmt.Printf(factsHeader, libraryVersion())
	for _, set := range []struct {
		t    uint64
		logN int
	}{{12289, 10}, {65537, 12}, {1099511480321, 12}} {
		params, err := slotsSet(set.t, set.logN)
		if err != nil {
			return err
		}
		lines, err := slotsResults(params)
		if err != nil {
			return err
		}
		generator := params.RingT().SubRings[0].PrimitiveRoot
		root := ring.ModExp(generator, (set.t-1)>>(set.logN+1), set.t)
		fmt.Printf("%d,%d,root,%d\n", set.t, set.logN, root)
		for _, line := range lines {
			fmt.Printf("%d,%d,%s,%d", set.t, set.logN, line.Op, checksum(line.Slots))
			for _, value := range line.Slots[:shownValues] {
				fmt.Printf(",%d", value)
			}
			fmt.Println()
		}
	}
	return nil
}

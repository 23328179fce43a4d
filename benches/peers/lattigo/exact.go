package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/bgv"
)

// exactOps are those of BFV and BGV, which are one scheme here: rotations are the same operation.
var exactOps = []string{"bfv_mul", "bfv_rotate", "bgv_mul", "bgv_rotate"}

// exactSets have slots of integers modulo 65537.
var exactSets = map[string]bgv.ParametersLiteral{
	"n14-q330-t65537": {
		LogN: 14, LogQ: repeat(55, 6), LogP: repeat(56, 2), PlaintextModulus: 65537, Xs: uniformTernary,
	},
}

// exactBench holds the keys and two encrypted inputs of one parameter set.
type exactBench struct {
	params    bgv.Parameters
	encoder   *bgv.Encoder
	decryptor *rlwe.Decryptor
	evaluator *bgv.Evaluator
	relinKey  *rlwe.RelinearizationKey
	galoisKey *rlwe.GaloisKey

	x, y   []uint64
	cx, cy *rlwe.Ciphertext
}

// newExactBench encrypts x and y at the top level, with keys for products and for these automorphisms.
func newExactBench(params bgv.Parameters, x, y []uint64, elements []uint64) (*exactBench, error) {
	keygen := bgv.NewKeyGenerator(params)
	secret, public := keygen.GenKeyPairNew()
	b := &exactBench{params: params, x: x, y: y, relinKey: keygen.GenRelinearizationKeyNew(secret)}
	galoisKeys := keygen.GenGaloisKeysNew(elements, secret)
	b.galoisKey = galoisKeys[0]
	b.encoder = bgv.NewEncoder(params)
	b.decryptor = bgv.NewDecryptor(params, secret)
	b.evaluator = bgv.NewEvaluator(params, rlwe.NewMemEvaluationKeySet(b.relinKey, galoisKeys...))
	encryptor := bgv.NewEncryptor(params, public)
	encrypt := func(slots []uint64) (*rlwe.Ciphertext, error) {
		plaintext := bgv.NewPlaintext(params, params.MaxLevel())
		if err := b.encoder.Encode(slots, plaintext); err != nil {
			return nil, err
		}
		return encryptor.EncryptNew(plaintext)
	}
	var errX, errY error
	b.cx, errX = encrypt(x)
	b.cy, errY = encrypt(y)
	return b, errors.Join(errX, errY)
}

func (b *exactBench) ciphertext() *rlwe.Ciphertext {
	return bgv.NewCiphertext(b.params, 1, b.params.MaxLevel())
}

func (b *exactBench) decrypted(ct *rlwe.Ciphertext) ([]uint64, error) {
	slots := make([]uint64, b.params.MaxSlots())
	return slots, b.encoder.Decode(b.decryptor.DecryptNew(ct), slots)
}

// measurement is an operation as it is timed, and whether its result is right.
func (b *exactBench) measurement(op string) (run, check func() error, bytes int) {
	ct, t := b.ciphertext(), b.params.PlaintextModulus()
	products := make([]uint64, len(b.x))
	for i, x := range b.x {
		products[i] = mulAddMod(x, b.y[i], 0, t)
	}
	expect := func(want []uint64) func() error {
		return func() error {
			got, err := b.decrypted(ct)
			if err == nil && !slices.Equal(got, want) {
				err = errors.New("slots are not those in the clear")
			}
			return err
		}
	}
	switch op {
	case "bfv_mul":
		multiply := func() error { return b.evaluator.MulRelinScaleInvariant(b.cx, b.cy, ct) }
		return multiply, expect(products), b.relinKey.BinarySize()
	case "bgv_mul":
		multiply := func() error { return b.evaluator.MulRelin(b.cx, b.cy, ct) }
		return multiply, expect(products), b.relinKey.BinarySize()
	}
	rotate := func() error { return b.evaluator.RotateColumns(b.cx, 1, ct) }
	return rotate, expect(rolled(b.x, 1)), b.galoisKey.BinarySize()
}

// rolled rotates both rows of slots by k to the left.
func rolled(slots []uint64, k int) []uint64 {
	row := len(slots) / 2
	out := make([]uint64, len(slots))
	for i := range slots {
		out[i] = slots[i/row*row+((i+k)%row+row)%row]
	}
	return out
}

func randomIntegers(count int, t uint64) []uint64 {
	slots := make([]uint64, count)
	for i := range slots {
		slots[i] = rand.Uint64N(t)
	}
	return slots
}

func runExact(name string, ops []string, runs, threads int) error {
	params, err := bgv.NewParametersFromLiteral(exactSets[name])
	if err != nil {
		return err
	}
	count, t := params.MaxSlots(), params.PlaintextModulus()
	elements := []uint64{params.GaloisElement(1)}
	b, err := newExactBench(params, randomIntegers(count, t), randomIntegers(count, t), elements)
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	for _, op := range ops {
		call, check, size := b.measurement(op)
		median, least, err := timeMs(runs, call)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", name, op, err)
		}
		if err := check(); err != nil {
			return fmt.Errorf("%s, %s: wrong result: %w", name, op, err)
		}
		result := line{
			Op: op, Params: name, Level: params.MaxLevel(), Threads: threads, ISA: "scalar",
			MedianMs: median, MinMs: least, Runs: runs, Bytes: size, Library: "lattigo",
			Version: libraryVersion(), LogN: params.LogN(), LogQ: rounded(params.LogQ()),
			LogP: rounded(params.LogP()),
			Dnum: params.BaseRNSDecompositionVectorSize(params.MaxLevelQ(), params.MaxLevelP()),
			Keys: []key{evaluationKeys(params.Parameters, params.Xs())},
		}
		if err := output.Encode(result); err != nil {
			return err
		}
	}
	return nil
}

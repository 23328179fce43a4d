// Command sudare-peer-lattigo times operations of CKKS, BGV and BFV of Lattigo v6 and prints one JSON
// line per operation, in the form of "sudare bench --json".
//
// Inputs are drawn afresh in every run of the program. The result of each operation is decrypted
// and compared with the clear result; a wrong one makes the exit status 1.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

const modulePath = "github.com/tuneinsight/lattigo/v6"

// minRun is the shortest time over which one run averages; far above the clock's resolution.
const minRun = 2 * time.Millisecond

// precisionMarginBits is how many bits below log2(scale) the worst slot may fall before a result
// counts as wrong. Fresh encryption and key switching at N = 2^16 cost about 17 bits.
const precisionMarginBits = 25

// checkedPoints is how many outputs of the forward transform are compared with Horner evaluation.
const checkedPoints = 16

// hoistedRotations is the number of rotations that share one decomposition in rotate_hoisted_8.
const hoistedRotations = 8

var allOps = []string{
	"ntt_forward", "ntt_inverse", "encode", "encrypt", "decrypt", "add", "mul_plain", "mul_rescale",
	"rotate", "rotate_hoisted_8",
}

func repeat(logPrime, count int) []int { return slices.Repeat([]int{logPrime}, count) }

func chain(logFirst, logPrime, count int) []int {
	return append([]int{logFirst}, repeat(logPrime, count)...)
}

var (
	uniformTernary = ring.Ternary{P: 2.0 / 3}
	sparseTernary  = ring.Ternary{H: 64}
)

// parameterSets are explicit in every prime size, so that no default of the library enters. The
// fullrns sets have one digit (P > Q); the library generates chain primes of at most 60 bits, so q0
// has 60 bits where the paper has 61.
var parameterSets = map[string]ckks.ParametersLiteral{
	"n15-q610": {
		LogN: 15, LogQ: chain(60, 55, 10), LogP: repeat(61, 4), LogDefaultScale: 55, Xs: uniformTernary,
	},
	"n16-d24": {
		LogN: 16, LogQ: chain(60, 45, 24), LogP: repeat(61, 9), LogDefaultScale: 45, Xs: uniformTernary,
	},
	"fullrns-5": {
		LogN: 15, LogQ: chain(60, 55, 5), LogP: repeat(61, 6), LogDefaultScale: 55, Xs: sparseTernary,
	},
	"fullrns-10": {
		LogN: 15, LogQ: chain(60, 55, 10), LogP: repeat(61, 11), LogDefaultScale: 55, Xs: sparseTernary,
	},
	"fullrns-15": {
		LogN: 16, LogQ: chain(60, 55, 15), LogP: repeat(61, 16), LogDefaultScale: 55, Xs: sparseTernary,
	},
}

var aliases = map[string]string{"n15": "n15-q610", "n16": "n16-d24"}

// line is one benchmark result.
type line struct {
	Op            string   `json:"op"`
	Params        string   `json:"params"`
	Level         int      `json:"level"`
	Threads       int      `json:"threads"`
	ISA           string   `json:"isa"`
	MedianMs      float64  `json:"median_ms"`
	MinMs         float64  `json:"min_ms"`
	Runs          int      `json:"runs"`
	PrecisionBits *float64 `json:"precision_bits,omitempty"`
	Bytes         int      `json:"bytes"`
	Library       string   `json:"library"`
	Version       string   `json:"version"`
	LogN          int      `json:"log_n"`
	LogQ          float64  `json:"log_q"`
	LogP          float64  `json:"log_p"`
	Dnum          int      `json:"dnum"`
	Keys          []key    `json:"keys"`
}

// key is a kind of published key, to be priced by the caller: log2 of its modulus, and the weight of
// its ternary secret, 0 for a uniform one.
type key struct {
	What   string  `json:"what"`
	Log2Q  float64 `json:"log2_q"`
	Weight int     `json:"weight,omitempty"`
}

// evaluationKeys are those of params under a secret of the given distribution. A weight of N/2, a
// little below the average of a uniform secret, counts as uniform.
func evaluationKeys(params rlwe.Parameters, secret ring.DistributionParameters) key {
	weight := 0
	if ternary, ok := secret.(ring.Ternary); ok && 2*ternary.H < params.N() {
		weight = ternary.H
	}
	return key{What: "evaluation keys", Log2Q: rounded(params.LogQP()), Weight: weight}
}

// measurement is an operation with what it needs before and after its timing.
type measurement struct {
	run func() error
	// check returns the precision of the worst slot in bits, or +Inf for an exact operation.
	check func() (float64, error)
	bytes int
}

// bench holds the keys and fresh inputs of one parameter set.
type bench struct {
	params    ckks.Parameters
	level     int
	encoder   *ckks.Encoder
	encryptor *rlwe.Encryptor
	decryptor *rlwe.Decryptor
	evaluator *ckks.Evaluator
	relinKey  *rlwe.RelinearizationKey
	galoisKey map[int]*rlwe.GaloisKey

	x, y   []complex128
	px, py *rlwe.Plaintext
	cx, cy *rlwe.Ciphertext
}

func newBench(params ckks.Parameters, ops []string, encodeBits uint) (*bench, error) {
	b := &bench{params: params, level: params.MaxLevel(), galoisKey: map[int]*rlwe.GaloisKey{}}
	keygen := ckks.NewKeyGenerator(params)
	secret, public := keygen.GenKeyPairNew()
	if slices.Contains(ops, "mul_rescale") {
		b.relinKey = keygen.GenRelinearizationKeyNew(secret)
	}
	rotations := 0
	if slices.Contains(ops, "rotate") {
		rotations = 1
	}
	if slices.Contains(ops, "rotate_hoisted_8") {
		rotations = hoistedRotations
	}
	galoisKeys := make([]*rlwe.GaloisKey, 0, rotations)
	for k := 1; k <= rotations; k++ {
		b.galoisKey[k] = keygen.GenGaloisKeyNew(params.GaloisElement(k), secret)
		galoisKeys = append(galoisKeys, b.galoisKey[k])
	}

	b.encoder = ckks.NewEncoder(params, encodeBits)
	b.encryptor = ckks.NewEncryptor(params, public)
	b.decryptor = ckks.NewDecryptor(params, secret)
	b.evaluator = ckks.NewEvaluator(params, rlwe.NewMemEvaluationKeySet(b.relinKey, galoisKeys...))

	b.x, b.y = randomSlots(params.MaxSlots()), randomSlots(params.MaxSlots())
	b.px, b.py = ckks.NewPlaintext(params, b.level), ckks.NewPlaintext(params, b.level)
	if err := errors.Join(b.encoder.Encode(b.x, b.px), b.encoder.Encode(b.y, b.py)); err != nil {
		return nil, err
	}
	var errX, errY error
	b.cx, errX = b.encryptor.EncryptNew(b.px)
	b.cy, errY = b.encryptor.EncryptNew(b.py)
	return b, errors.Join(errX, errY)
}

// randomSlots draws slots with real and imaginary part uniform in [-1, 1).
func randomSlots(count int) []complex128 {
	slots := make([]complex128, count)
	for i := range slots {
		slots[i] = complex(2*rand.Float64()-1, 2*rand.Float64()-1)
	}
	return slots
}

func (b *bench) plaintext() *rlwe.Plaintext { return ckks.NewPlaintext(b.params, b.level) }

func (b *bench) ciphertext() *rlwe.Ciphertext { return ckks.NewCiphertext(b.params, 1, b.level) }

func (b *bench) ciphertextBytes() int { return 2 * 8 * b.params.N() * (b.level + 1) }

// comparePlaintext returns -log2 of the largest error of a slot.
func (b *bench) comparePlaintext(pt *rlwe.Plaintext, want func(i int) complex128) (float64, error) {
	got := make([]complex128, b.params.MaxSlots())
	if err := b.encoder.Decode(pt, got); err != nil {
		return 0, err
	}
	worst := 0.0
	for i, value := range got {
		diff := value - want(i)
		err := max(math.Abs(real(diff)), math.Abs(imag(diff)))
		if math.IsNaN(err) {
			return 0, fmt.Errorf("slot %d is not a number", i)
		}
		worst = max(worst, err)
	}
	precision := -math.Log2(worst)
	if least := float64(b.params.LogDefaultScale() - precisionMarginBits); precision < least {
		return 0, fmt.Errorf("worst slot is right to %.1f bits, below %.1f", precision, least)
	}
	return precision, nil
}

func (b *bench) compare(ct *rlwe.Ciphertext, want func(i int) complex128) (float64, error) {
	return b.comparePlaintext(b.decryptor.DecryptNew(ct), want)
}

func (b *bench) rotated(k int) func(int) complex128 {
	return func(i int) complex128 { return b.x[(i+k)%len(b.x)] }
}

func (b *bench) measurement(op string) (measurement, error) {
	switch op {
	case "ntt_forward", "ntt_inverse":
		return b.transform(op == "ntt_forward"), nil
	case "encode":
		pt := b.plaintext()
		return measurement{
			run:   func() error { return b.encoder.Encode(b.x, pt) },
			check: func() (float64, error) { return b.comparePlaintext(pt, b.rotated(0)) },
			bytes: b.ciphertextBytes() / 2,
		}, nil
	case "encrypt":
		ct := b.ciphertext()
		return measurement{
			run:   func() error { return b.encryptor.Encrypt(b.px, ct) },
			check: func() (float64, error) { return b.compare(ct, b.rotated(0)) },
			bytes: b.ciphertextBytes(),
		}, nil
	case "decrypt":
		pt := b.plaintext()
		return measurement{
			run:   func() error { b.decryptor.Decrypt(b.cx, pt); return nil },
			check: func() (float64, error) { return b.comparePlaintext(pt, b.rotated(0)) },
			bytes: b.ciphertextBytes(),
		}, nil
	case "add":
		ct := b.ciphertext()
		return measurement{
			run: func() error { return b.evaluator.Add(b.cx, b.cy, ct) },
			check: func() (float64, error) {
				return b.compare(ct, func(i int) complex128 { return b.x[i] + b.y[i] })
			},
			bytes: b.ciphertextBytes(),
		}, nil
	case "mul_plain":
		ct := b.ciphertext()
		return measurement{
			run: func() error { return b.evaluator.Mul(b.cx, b.py, ct) },
			check: func() (float64, error) {
				return b.compare(ct, func(i int) complex128 { return b.x[i] * b.y[i] })
			},
			bytes: b.ciphertextBytes(),
		}, nil
	case "mul_rescale":
		product, ct := b.ciphertext(), ckks.NewCiphertext(b.params, 1, b.level-1)
		return measurement{
			run: func() error {
				if err := b.evaluator.MulRelin(b.cx, b.cy, product); err != nil {
					return err
				}
				return b.evaluator.Rescale(product, ct)
			},
			check: func() (float64, error) {
				return b.compare(ct, func(i int) complex128 { return b.x[i] * b.y[i] })
			},
			bytes: b.relinKey.BinarySize(),
		}, nil
	case "rotate":
		ct := b.ciphertext()
		return measurement{
			run:   func() error { return b.evaluator.Rotate(b.cx, 1, ct) },
			check: func() (float64, error) { return b.compare(ct, b.rotated(1)) },
			bytes: b.galoisKey[1].BinarySize(),
		}, nil
	case "rotate_hoisted_8":
		rotations, out, size := []int{}, map[int]*rlwe.Ciphertext{}, 0
		for k := 1; k <= hoistedRotations; k++ {
			rotations = append(rotations, k)
			out[k] = b.ciphertext()
			size += b.galoisKey[k].BinarySize()
		}
		return measurement{
			run: func() error { return b.evaluator.RotateHoisted(b.cx, rotations, out) },
			check: func() (float64, error) {
				least := math.Inf(1)
				for _, k := range rotations {
					precision, err := b.compare(out[k], b.rotated(k))
					if err != nil {
						return 0, fmt.Errorf("rotation by %d: %w", k, err)
					}
					least = min(least, precision)
				}
				return least, nil
			},
			bytes: size,
		}, nil
	}
	return measurement{}, fmt.Errorf("unknown operation %q", op)
}

// transform measures one limb: the prime of the top level, in place.
func (b *bench) transform(forward bool) measurement {
	limb := b.params.RingQ().SubRings[b.level]
	row := randomRow(b.params.N(), limb.Modulus)
	return measurement{
		run: func() error {
			if forward {
				limb.NTT(row, row)
			} else {
				limb.INTT(row, row)
			}
			return nil
		},
		check: func() (float64, error) { return math.Inf(1), checkTransform(limb, b.params.N()) },
		bytes: 8 * b.params.N(),
	}
}

func randomRow(n int, q uint64) []uint64 {
	row := make([]uint64, n)
	for i := range row {
		row[i] = rand.Uint64N(q)
	}
	return row
}

// checkTransform compares the forward transform with Horner evaluation and the inverse with the
// input. The transform of the polynomial X holds the evaluation points themselves, so the check does
// not depend on the order of the outputs.
func checkTransform(limb *ring.SubRing, n int) error {
	q := limb.Modulus
	points := make([]uint64, n)
	points[1] = 1
	limb.NTT(points, points)

	input, values := randomRow(n, q), make([]uint64, n)
	limb.NTT(input, values)
	for range checkedPoints {
		i := rand.IntN(n)
		x := points[i]
		power := x
		for range bits.Len(uint(n)) - 1 {
			power = mulAddMod(power, power, 0, q)
		}
		if power != q-1 {
			return fmt.Errorf("output %d is not taken at a root of X^%d + 1 mod %d", i, n, q)
		}
		var want uint64
		for _, coefficient := range slices.Backward(input) {
			want = mulAddMod(want, x, coefficient, q)
		}
		if values[i] != want {
			return fmt.Errorf("forward, output %d: got %d, Horner gives %d", i, values[i], want)
		}
	}

	limb.INTT(values, values)
	if !slices.Equal(values, input) {
		return errors.New("inverse(forward(a)) is not a")
	}
	return nil
}

// mulAddMod returns a*b + c mod q for a, b, c < q < 2^63.
func mulAddMod(a, b, c, q uint64) uint64 {
	high, low := bits.Mul64(a, b)
	low, carry := bits.Add64(low, c, 0)
	_, remainder := bits.Div64(high+carry, low, q)
	return remainder
}

// timeMs returns the median and the minimum of the time of one call in milliseconds, after a warm-up.
// Short calls are averaged over minRun.
func timeMs(runs int, call func() error) (median, least float64, err error) {
	repeats := 1
	for {
		start := time.Now()
		for range repeats {
			if err = call(); err != nil {
				return 0, 0, err
			}
		}
		if time.Since(start) >= minRun {
			break
		}
		repeats *= 2
	}
	runtime.GC()
	times := make([]float64, runs)
	for i := range times {
		start := time.Now()
		for range repeats {
			if err = call(); err != nil {
				return 0, 0, err
			}
		}
		times[i] = time.Since(start).Seconds() * 1e3 / float64(repeats)
	}
	slices.Sort(times)
	return (times[(runs-1)/2] + times[runs/2]) / 2, times[0], nil
}

// rounded keeps two decimals.
func rounded(value float64) float64 { return math.Round(value*100) / 100 }

func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == modulePath {
				return dependency.Version
			}
		}
	}
	return "unknown"
}

func run(name string, ops []string, runs, threads int, encodeBits uint) error {
	params, err := ckks.NewParametersFromLiteral(parameterSets[name])
	if err != nil {
		return err
	}
	b, err := newBench(params, ops, encodeBits)
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	for _, op := range ops {
		m, err := b.measurement(op)
		if err != nil {
			return err
		}
		median, least, err := timeMs(runs, m.run)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", name, op, err)
		}
		precision, err := m.check()
		if err != nil {
			return fmt.Errorf("%s, %s: wrong result: %w", name, op, err)
		}
		result := line{
			Op: op, Params: name, Level: b.level, Threads: threads, ISA: "scalar", MedianMs: median, MinMs: least,
			Runs: runs, Bytes: m.bytes, Library: "lattigo", Version: libraryVersion(), LogN: params.LogN(),
			LogQ: rounded(params.LogQ()), LogP: rounded(params.LogP()),
			Dnum: params.BaseRNSDecompositionVectorSize(params.MaxLevelQ(), params.MaxLevelP()),
			Keys: []key{evaluationKeys(params.Parameters, params.Xs())},
		}
		if !math.IsInf(precision, 1) {
			precision = rounded(precision)
			result.PrecisionBits = &precision
		}
		if err := output.Encode(result); err != nil {
			return err
		}
	}
	return nil
}

func usageError(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "sudare-peer-lattigo: "+format+"\n", arguments...)
	os.Exit(2)
}

func main() {
	paramsFlag := flag.String("params", "n15-q610", "parameter set: n15-q610 (n15), n16-d24 (n16), fullrns-5, fullrns-10, fullrns-15; of BGV and BFV n14-q330-t65537; with -ops bootstrap n16qp1767h32768h32, n15qp880h16384h32")
	opsFlag := flag.String("ops", strings.Join(allOps, ","), "operations, comma-separated")
	runs := flag.Int("runs", 5, "timed runs per operation, after a warm-up")
	threads := flag.Int("threads", 1, "GOMAXPROCS; the library itself is single-threaded")
	encodeBits := flag.Uint("encode-bits", 53, "encoder precision: 53 is complex128, more is arbitrary precision, 0 the library's default")
	printed := flag.Bool("slots", false, "print what given slots of integers become, for comparison, and time nothing")
	facts := flag.Bool("facts", false, "print what slots become in a few rings, in short, for sudare's own tests, and time nothing")
	flag.Parse()
	if *printed {
		exit(printSlots())
	}
	if *facts {
		exit(printFacts())
	}

	name := *paramsFlag
	if full, ok := aliases[name]; ok {
		name = full
	}
	if *runs < 1 || *threads < 1 {
		usageError("-runs and -threads must be at least 1")
	}
	if _, ok := bootstrapSets[name]; ok {
		if *opsFlag != "bootstrap" {
			usageError("the set %s is for -ops bootstrap only", name)
		}
		runtime.GOMAXPROCS(*threads)
		exit(runBootstrap(name, *runs, *threads, *encodeBits))
	}
	_, isExact := exactSets[name]
	if _, ok := parameterSets[name]; !ok && !isExact {
		usageError("unknown parameter set %q; -help lists them", *paramsFlag)
	}
	ops, known := strings.Split(*opsFlag, ","), allOps
	if isExact {
		known = exactOps
	}
	for _, op := range ops {
		if !slices.Contains(known, op) {
			usageError("unknown operation %q; there are %s", op, strings.Join(known, ", "))
		}
	}
	runtime.GOMAXPROCS(*threads)
	if isExact {
		exit(runExact(name, ops, *runs, *threads))
	}
	exit(run(name, ops, *runs, *threads, *encodeBits))
}

// exit ends the program with status 1 for an error and 0 otherwise.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sudare-peer-lattigo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

// gcPercent is how far garbage may grow beyond what is in use. Keys are nearly all of the memory; with the
// default of 100 the collector would wait for as much again.
const gcPercent = 10

// worstBits is how many bits the worst slot may be below the mean precision that the library states.
const worstBits = 6

type bootstrapSet struct {
	scheme        ckks.ParametersLiteral
	bootstrapping bootstrapping.ParametersLiteral
	// precisionBits is the mean precision that the library's documentation states.
	precisionBits float64
}

// bootstrapSets are the library's own defaults for dense main secrets, with special primes for the
// moduli that their names tell: those of its literals take log QP of the second set to 1012.
var bootstrapSets = map[string]bootstrapSet{
	"n16qp1767h32768h32": {
		bootstrapping.N16QP1767H32768H32.SchemeParams,
		withSpecialPrimes(bootstrapping.N16QP1767H32768H32.BootstrappingParams, repeat(61, 5)), 23.8,
	},
	"n15qp880h16384h32": {
		bootstrapping.N15QP880H16384H32.SchemeParams,
		withSpecialPrimes(bootstrapping.N15QP880H16384H32.BootstrappingParams, repeat(56, 2)), 17.3,
	},
}

func withSpecialPrimes(literal bootstrapping.ParametersLiteral, logP []int) bootstrapping.ParametersLiteral {
	literal.LogP = logP
	return literal
}

// bootstrapLine is the result of bootstrapping all slots of one ciphertext.
type bootstrapLine struct {
	line
	WorstPrecisionBits float64 `json:"worst_precision_bits"`
	LogSlots           int     `json:"log_slots"`
	Ciphertexts        int     `json:"ciphertexts"`
	LevelsLeft         int     `json:"levels_left"`
	ScaleBits          int     `json:"scale_bits"`
	// ResidualBits is log2 of the modulus of a refreshed ciphertext, all of which can be used.
	ResidualBits float64 `json:"residual_bits"`
	KeyBytes     int     `json:"key_bytes"`
	KeygenS      float64 `json:"keygen_s"`
	PrepareS     float64 `json:"prepare_s"`
}

// bootstrapErrors are the distances of results from the values they should have.
type bootstrapErrors struct {
	sum, worst float64
	count      int
}

func (e *bootstrapErrors) add(got, want []complex128) error {
	for i, value := range got {
		diff := value - want[i]
		distance := math.Hypot(real(diff), imag(diff))
		if math.IsNaN(distance) {
			return fmt.Errorf("slot %d is not a number", i)
		}
		e.sum += distance
		e.worst = max(e.worst, distance)
	}
	e.count += len(got)
	return nil
}

// bootstrapKeys are the evaluation keys and the one to the ephemeral secret, which is published modulo
// the lowest prime and one special prime.
func bootstrapKeys(params bootstrapping.Parameters) []key {
	ring := params.BootstrappingParameters
	// In one ring the secret is that of the ciphertexts, whatever the parameters of bootstrapping say.
	keys := []key{evaluationKeys(ring.Parameters, params.ResidualParameters.Xs())}
	if weight := params.EphemeralSecretWeight; weight > 0 {
		modulus := []uint64{ring.Q()[0], ring.P()[0]}
		keys = append(keys, key{"key to the ephemeral secret", rounded(log2Product(modulus)), weight})
	}
	return keys
}

func log2Product(primes []uint64) float64 {
	sum := 0.0
	for _, prime := range primes {
		sum += math.Log2(float64(prime))
	}
	return sum
}

func runBootstrap(name string, runs, threads int, encodeBits uint) error {
	debug.SetGCPercent(gcPercent)
	set := bootstrapSets[name]
	params, err := ckks.NewParametersFromLiteral(set.scheme)
	if err != nil {
		return err
	}
	bootParams, err := bootstrapping.NewParametersFromLiteral(params, set.bootstrapping)
	if err != nil {
		return err
	}

	start := time.Now()
	secret, public := ckks.NewKeyGenerator(params).GenKeyPairNew()
	keys, _, err := bootParams.GenEvaluationKeys(secret)
	if err != nil {
		return err
	}
	keygen := time.Since(start)
	start = time.Now()
	evaluator, err := bootstrapping.NewEvaluator(bootParams, keys)
	if err != nil {
		return err
	}
	prepare := time.Since(start)

	encoder := ckks.NewEncoder(params, encodeBits)
	encryptor, decryptor := ckks.NewEncryptor(params, public), ckks.NewDecryptor(params, secret)
	open := func(ct *rlwe.Ciphertext) ([]complex128, error) {
		slots := make([]complex128, params.MaxSlots())
		return slots, encoder.Decode(decryptor.DecryptNew(ct), slots)
	}
	times, distances := []float64{}, bootstrapErrors{}
	// The first run is the warm-up.
	for round := range runs + 1 {
		plaintext := ckks.NewPlaintext(params, 0)
		if err := encoder.Encode(randomSlots(params.MaxSlots()), plaintext); err != nil {
			return err
		}
		input, err := encryptor.EncryptNew(plaintext)
		if err != nil {
			return err
		}
		want, err := open(input)
		if err != nil {
			return err
		}
		start := time.Now()
		refreshed, err := evaluator.Bootstrap(input)
		elapsed := time.Since(start)
		if err != nil {
			return err
		}
		got, err := open(refreshed)
		if err = errors.Join(err, distances.add(got, want)); err != nil {
			return fmt.Errorf("%s, bootstrap: wrong result: %w", name, err)
		}
		if worst := -math.Log2(distances.worst); worst < set.precisionBits-worstBits {
			return fmt.Errorf("%s, bootstrap: wrong result: the worst slot is right to %.1f bits", name, worst)
		}
		if round > 0 {
			times = append(times, elapsed.Seconds()*1e3)
		}
	}
	slices.Sort(times)

	ring, mean := bootParams.BootstrappingParameters, rounded(-math.Log2(distances.sum/float64(distances.count)))
	return json.NewEncoder(os.Stdout).Encode(bootstrapLine{
		line: line{
			Op: "bootstrap", Params: name, Level: 0, Threads: threads, ISA: "scalar",
			MedianMs: (times[(runs-1)/2] + times[runs/2]) / 2, MinMs: times[0], Runs: runs, PrecisionBits: &mean,
			Bytes: keys.BinarySize(), Library: "lattigo", Version: libraryVersion(), LogN: ring.LogN(),
			LogQ: rounded(ring.LogQ()), LogP: rounded(ring.LogP()),
			Dnum: ring.BaseRNSDecompositionVectorSize(ring.MaxLevelQ(), ring.MaxLevelP()),
			Keys: bootstrapKeys(bootParams),
		},
		WorstPrecisionBits: rounded(-math.Log2(distances.worst)),
		LogSlots:           bootParams.LogMaxSlots(),
		Ciphertexts:        1,
		LevelsLeft:         evaluator.OutputLevel(),
		ScaleBits:          params.LogDefaultScale(),
		ResidualBits:       rounded(log2Product(params.Q()[:evaluator.OutputLevel()+1])),
		KeyBytes:           keys.BinarySize(),
		KeygenS:            keygen.Seconds(),
		PrepareS:           prepare.Seconds(),
	})
}

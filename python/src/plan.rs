//! Parameters, and plans of the keys for computations under them.

use crate::{error::Result, job, lineage::Lineage};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use std::{ffi::CString, sync::Arc};
use sudare::{
    circuits::ckks::bootstrap::{self, BootstrapPlan, BootstrapPreset},
    ckks::{
        Params, Spec,
        serial::{self, Label},
    },
    rlwe::{self, KeyRequest, KeySecurity, Level},
};
use sudare_apps::array::{self, ArrayFacts, InputRange, PlanOptions, Planned};
use sudare_roles::plan::sets::Set;

/// Parameters, their way to bootstrap if they have one, and the label of files of keys under them.
#[pyclass(frozen, module = "sudare._native")]
#[derive(Clone)]
pub struct Parameters {
    pub(crate) params: Params,
    pub(crate) label: Label,
    pub(crate) bootstrapping: Option<Bootstrapping>,
}

/// A way to bootstrap.
#[derive(Clone)]
pub struct Bootstrapping {
    pub(crate) plan: Arc<BootstrapPlan>,
}

/// The label of a file of keys for a program, next to the name of the set.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    /// `log2` of the number of bootstrapped slots.
    bootstrapped_log_slots: u32,
}

#[pymethods]
impl Parameters {
    /// Fingerprint of the parameters, in hexadecimal.
    #[getter]
    fn id(&self) -> String {
        self.params.rlwe().id().to_string()
    }

    /// Name of the parameters, or an empty text.
    #[getter]
    fn name(&self) -> &str {
        &self.label.name
    }

    /// Warns if the parameters are not secure. The warning names the line `calls` frames above, 1 for the
    /// caller.
    pub(crate) fn warn_if_insecure(&self, py: Python<'_>, calls: i32) -> PyResult<()> {
        warn_if_insecure(py, (self.params.rlwe(), self.params.spec().insecure), calls)
    }
}

/// Warns like [`Parameters::warn_if_insecure`], for parameters of any scheme.
pub(crate) fn warn_if_insecure(
    py: Python<'_>,
    (params, insecure): (&rlwe::Params, bool),
    calls: i32,
) -> PyResult<()> {
    if !insecure {
        return Ok(());
    }
    let bits = params.security_bits();
    let text = format!(
        "these parameters have {bits:.1} bits of security instead of 128: encrypt only public data \
         with them"
    );
    security_warning(py, text, calls)
}

/// Warns with a line `calls` frames above, 1 for the caller.
pub(crate) fn security_warning(py: Python<'_>, text: String, calls: i32) -> PyResult<()> {
    let category = py.import("sudare.errors")?.getattr("SecurityWarning")?;
    PyErr::warn(py, &category, &CString::new(text)?, calls)
}

/// Parameters, the keys to make, and the costs of the program that they are for, if any.
#[pyclass(frozen, module = "sudare._native")]
pub struct Plan {
    pub(crate) set: Parameters,
    pub(crate) request: KeyRequest,
    /// The planned program, with the lineages of its results.
    pub(crate) program: Option<(Planned, Vec<Option<Lineage>>)>,
}

/// The report of a plan, as a dictionary.
#[derive(IntoPyObject)]
pub struct Report {
    params: String,
    params_id: String,
    log_n: u32,
    slots: usize,
    levels: u32,
    log2_scale: f64,
    log2_qp: f64,
    security_bits: f64,
    pub(crate) bootstrap_levels: Option<u32>,
    evaluation_keys: usize,
    evaluation_key_bytes: u64,
    evaluation_key_memory_bytes: u64,
    ciphertext_bytes: u64,
    program: Option<ProgramReport>,
}

/// The costs of a program, as a dictionary.
#[derive(IntoPyObject)]
pub struct ProgramReport {
    pub(crate) depth: u32,
    pub(crate) bootstraps: u64,
    pub(crate) missing_keys: bool,
    pub(crate) input_bytes: u64,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) inputs: Vec<InputReport>,
    pub(crate) outputs: Vec<OutputReport>,
}

/// An input of a program, as a dictionary.
#[derive(IntoPyObject)]
pub struct InputReport {
    shape: Vec<usize>,
    low: f64,
    high: f64,
    declared: bool,
}

/// A result of a program, as a dictionary.
#[derive(IntoPyObject)]
pub struct OutputReport {
    shape: Vec<usize>,
    level: u32,
    ciphertexts: usize,
    log2_error: f64,
    filled_log2_error: f64,
    largest_error: Option<f64>,
    share_bits: Option<u32>,
    lineage: Option<String>,
}

#[pymethods]
impl Plan {
    /// Plans for programs of `depth` levels, in the smallest ring at 128 bits.
    #[staticmethod]
    fn leveled(py: Python<'_>, depth: u32) -> Result<Self> {
        job::run(py, None, move |_| {
            let spec = PlanOptions::default().parameters(depth as usize);
            let spec = spec.ok_or_else(|| sudare::Error::InvalidSpec {
                field: "depth",
                problem: format!(
                    "no ring has {depth} levels at 128 bits of security: use a program of less \
                     depth, or bootstrap=True"
                ),
            })?;
            Self::new(spec, "")
        })
    }

    /// Plans for programs of any length, of steps of at most `depth` levels between bootstrappings.
    #[staticmethod]
    fn bootstrapping(py: Python<'_>, depth: u32) -> Result<Self> {
        job::run(py, None, move |_| {
            let set = bootstrap::preset(BOOTSTRAPPING)?;
            let plan = Self::new(set.preset.spec, BOOTSTRAPPING)?;
            let levels = plan.set.usable_levels();
            if depth > levels {
                let problem = format!(
                    "{depth} levels in a row are too many: bootstrapping leaves {levels}; \
                     choose at most that depth"
                );
                return Err(sudare::Error::InvalidSpec { field: "depth", problem }.into());
            }
            Ok(plan)
        })
    }

    /// Plans for the set of this name. With `insecure_log_n`, its ring has that size and no security.
    #[staticmethod]
    #[pyo3(signature = (name, insecure_log_n=None))]
    fn preset(py: Python<'_>, name: String, insecure_log_n: Option<u32>) -> Result<Self> {
        job::run(py, None, move |_| {
            let mut spec = Set::named(&name)?.into_preset().spec;
            if let Some(log_n) = insecure_log_n {
                (spec.log_n, spec.insecure) = (log_n, true);
            }
            Self::new(spec, &name)
        })
    }

    #[getter]
    fn parameters(&self) -> Parameters {
        self.set.clone()
    }

    /// Returns sizes and security.
    fn report(&self) -> Result<Report> {
        Report::new(
            &self.set,
            &self.request,
            self.program.as_ref().map(|(planned, lineages)| self.program_report(planned, lineages)),
        )
    }
}

impl Report {
    /// Reports on parameters and the keys to make for a program.
    pub(crate) fn new(
        set: &Parameters,
        request: &KeyRequest,
        program: Option<ProgramReport>,
    ) -> Result<Self> {
        let params = &set.params;
        let rlwe = params.rlwe();
        let keys: Vec<KeySecurity> =
            rlwe.key_security().into_iter().chain(request.key_security(rlwe)?).collect();
        // Each key is judged at its own modulus: the weakest one decides.
        let security_bits = keys.iter().map(|key| key.security_bits).fold(f64::INFINITY, f64::min);
        Ok(Self {
            params: set.label.name.clone(),
            params_id: rlwe.id().to_string(),
            log_n: params.log_n(),
            slots: params.max_slots(),
            levels: set.fresh_level().0,
            log2_scale: params.spec().log2_scale,
            log2_qp: keys.iter().map(|key| key.log2_q).fold(0.0, f64::max),
            security_bits,
            bootstrap_levels: set.bootstrapping.as_ref().map(|way| way.plan.usable_levels()),
            evaluation_keys: request.count(),
            evaluation_key_bytes: serial::evaluation_keys_bytes(params, request, &set.label)?,
            evaluation_key_memory_bytes: request.bytes(rlwe)?,
            // Two polynomials of eight bytes a residue.
            ciphertext_bytes: 16 * (rlwe.limbs(set.fresh_level()).q() << params.log_n()) as u64,
            program,
        })
    }
}

impl Plan {
    /// Makes the plan for any program.
    fn new(spec: Spec, name: &str) -> Result<Self> {
        let label = Label { name: name.into(), content: "keys".into(), meta: Vec::new() };
        let set = Parameters::new(Params::new(spec)?, label)?;
        let mut request = set.general_keys();
        if let Some(way) = &set.bootstrapping {
            request |= way.plan.required_keys();
        }
        Ok(Self { set, request, program: None })
    }

    /// Makes the plan for one program.
    pub(crate) fn planned(planned: Planned, lineages: Vec<Option<Lineage>>) -> Result<Self> {
        let (name, meta) = match &planned.bootstrapping {
            Some((name, log_slots)) => {
                let meta = Meta { bootstrapped_log_slots: *log_slots };
                (name.clone(), serde_json::to_vec(&meta).map_err(std::io::Error::other))
            }
            None => (String::new(), Ok(Vec::new())),
        };
        let label =
            Label { name, content: "keys".into(), meta: meta.map_err(sudare::Error::from)? };
        let set = Parameters::new(Params::new(planned.spec.clone())?, label)?;
        Ok(Self { set, request: planned.required_keys.clone(), program: Some((planned, lineages)) })
    }

    fn program_report(&self, program: &Planned, lineages: &[Option<Lineage>]) -> ProgramReport {
        let mut all = self.request.clone();
        all |= &program.required_keys;
        // Bootstrapped results have no worst-case error, so they have neither bound nor bits to share.
        let known = program.bootstraps == 0;
        let output = |(output, lineage): (&ArrayFacts, &Option<Lineage>)| OutputReport {
            shape: output.shape.clone(),
            level: output.level,
            ciphertexts: output.blocks,
            log2_error: output.noise_log2,
            filled_log2_error: output.filled_noise_log2,
            largest_error: known.then(|| output.largest_error()).filter(|error| error.is_finite()),
            share_bits: output.most_shared_bits().filter(|_| known),
            lineage: lineage.map(Lineage::to_hex),
        };
        let input = |(input, range): (&ArrayFacts, &InputRange)| InputReport {
            shape: input.shape.clone(),
            low: range.low,
            high: range.high,
            declared: range.declared,
        };
        ProgramReport {
            depth: program.depth,
            bootstraps: program.bootstraps,
            // A program that was measured under another plan may need keys that the plan lacks.
            missing_keys: all != self.request,
            input_bytes: program.ciphertext_bytes,
            peak_memory_bytes: program.peak_bytes,
            seconds: program.seconds,
            inputs: program.inputs.iter().zip(&program.ranges).map(input).collect(),
            outputs: program.outputs.iter().zip(lineages).map(output).collect(),
        }
    }
}

impl Parameters {
    /// Finds the way to bootstrap that parameters of this name have, in a ring of any size.
    pub(crate) fn new(params: Params, label: Label) -> sudare::Result<Self> {
        let log_n = params.log_n();
        let insecure = params.spec().insecure;
        // A file's label is a claim. The name counts only if the other parameters are the ones of
        // the set.
        let same = |set: &BootstrapPreset| {
            *params.spec() == Spec { log_n, insecure, ..set.preset.spec.clone() }
        };
        // Finding a set by name designs all sets, which takes a second. These names belong to no set.
        let named = !matches!(&*label.name, "" | AUTO);
        let set = named.then(|| bootstrap::preset(&label.name).ok()).flatten();
        let plan = match set.filter(same) {
            None => None,
            Some(set) if set.bootstrap.log_slots == log_n - 1 => {
                // Keys for any program have no such label: they bootstrap all slots.
                let meta = serde_json::from_slice(&label.meta).ok();
                let log_slots = meta.map(|Meta { bootstrapped_log_slots }| bootstrapped_log_slots);
                Some(set.plan(&params, log_slots.unwrap_or(log_n - 1))?)
            }
            // A smaller ring needs fewer levels, so the modulus is raised to a lower one.
            Some(set) => {
                let spec = set.bootstrap.with_log_slots(log_n - 1);
                let plan = |top| spec.plan(&params, Level(top)).ok();
                // From the highest level down: the first one that works leaves the most levels.
                let found = (params.top().0..=params.upper_top().0).rev().find_map(plan);
                found.map(|plan| plan.with_precision(set.precision_bits))
            }
        };
        let bootstrapping = plan.map(|plan| Bootstrapping { plan: Arc::new(plan) });
        Ok(Self { params, label, bootstrapping })
    }

    /// Returns the level of new arrays.
    pub(crate) fn fresh_level(&self) -> Level {
        let top = self.params.top();
        self.bootstrapping.as_ref().map_or(top, |way| way.plan.output_level())
    }

    /// Returns the keys for any program, except the keys for bootstrapping.
    pub(crate) fn general_keys(&self) -> KeyRequest {
        array::general_keys(&self.params, self.fresh_level())
    }

    fn usable_levels(&self) -> u32 {
        let levels = self.params.top().0;
        self.bootstrapping.as_ref().map_or(levels, |way| way.plan.usable_levels())
    }
}

/// Returns the options for planning a program.
pub fn plan_options(
    bootstrap: bool,
    share_bits: Option<u32>,
    assume_intervals: bool,
    ranges: Vec<Option<(f64, f64)>>,
) -> PlanOptions {
    let bootstrapping = bootstrap.then(|| BOOTSTRAPPING.into());
    PlanOptions { bootstrapping, share_bits, assume_intervals, ranges, ..PlanOptions::default() }
}

/// Name of parameters that were made for a job.
pub(crate) const AUTO: &str = "auto";

/// The set for bootstrapping. Arrays hold real numbers, so it is one for real slots.
const BOOTSTRAPPING: &str = "n16-boot-real";

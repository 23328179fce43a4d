//! Arrays of integers: their parameters, and plans of the keys for them.

pub mod array;
pub mod keys;

use crate::{error::Result, job, plan::warn_if_insecure};
use pyo3::prelude::*;
use sudare::{
    circuits::exact::bootstrap::BootstrapPlan,
    exact::{
        self, Params, Preset, Spec,
        serial::{self, Label},
    },
    rlwe::{KeyRequest, KeySecurity},
};
use sudare_apps::{
    exact::{Scheme, Setting, bootstrapping_set, matrix_bytes, plan, plan_bootstrapping},
    words,
};
use sudare_roles::exact_files::key_label;

/// Parameters with a scheme, and the label of files of keys under them.
#[pyclass(frozen, module = "sudare._native")]
#[derive(Clone)]
pub struct IntegerParameters {
    pub(crate) setting: Setting,
    pub(crate) label: Label,
}

#[pymethods]
impl IntegerParameters {
    /// Fingerprint of the parameters, in hexadecimal.
    #[getter]
    fn id(&self) -> String {
        self.setting.params().rlwe().id().to_string()
    }

    #[getter]
    fn t(&self) -> u64 {
        // Moduli are below 2^62, so the cast keeps the value.
        self.setting.modulus().value() as u64
    }

    #[getter]
    fn slots(&self) -> usize {
        self.setting.slots()
    }

    #[getter]
    fn scheme(&self) -> String {
        self.setting.scheme().to_string()
    }

    #[getter]
    fn signed(&self) -> bool {
        self.setting.is_signed()
    }

    /// Warns if the parameters are not secure. The warning names the line `calls` frames above, 1 for the
    /// caller.
    fn warn_if_insecure(&self, py: Python<'_>, calls: i32) -> PyResult<()> {
        let params = self.setting.params();
        warn_if_insecure(py, (params.rlwe(), params.spec().insecure), calls)
    }
}

/// Parameters, the keys to make, and the reason for the choice.
#[pyclass(frozen, module = "sudare._native")]
pub struct IntegerPlan {
    set: IntegerParameters,
    request: KeyRequest,
    reason: String,
}

/// The report of a plan, as a dictionary.
#[derive(IntoPyObject)]
struct Report {
    params: String,
    params_id: String,
    scheme: String,
    signed: bool,
    t: u64,
    log_n: u32,
    slots: usize,
    levels: u32,
    log2_qp: f64,
    security_bits: f64,
    product_seconds: Option<f64>,
    rotation_seconds: f64,
    bootstrapping: Option<Bootstrapping>,
    evaluation_keys: usize,
    evaluation_key_bytes: u64,
    evaluation_key_memory_bytes: u64,
    ciphertext_bytes: u64,
    reason: String,
}

/// The report of bootstrapping, as a dictionary.
#[derive(IntoPyObject)]
struct Bootstrapping {
    levels: u32,
    log2_failure: f64,
    budget_bits: Option<f64>,
    seconds: Option<f64>,
    matrix_bytes: u64,
}

#[pymethods]
impl IntegerPlan {
    /// Plans for programs of `depth` levels modulo `t`, in the smallest ring at 128 bits.
    #[staticmethod]
    fn leveled(py: Python<'_>, t: u64, depth: u32, scheme: &str, signed: bool) -> Result<Self> {
        let scheme = scheme.parse()?;
        job::run(py, None, move |_| {
            let choice = plan(t.into(), depth)?;
            let setting = Setting::new(Params::new(choice.spec)?, scheme, signed)?;
            Self::new("", setting, choice.reason)
        })
    }

    /// Plans for programs of any length modulo `t`, of steps of at most `depth` levels between
    /// bootstrappings.
    #[staticmethod]
    fn bootstrapping(
        py: Python<'_>,
        t: u64,
        depth: u32,
        scheme: &str,
        signed: bool,
    ) -> Result<Self> {
        let scheme = scheme.parse()?;
        job::run(py, None, move |_| {
            let preset = plan_bootstrapping(t.into(), depth)?.preset;
            Self::named(preset, scheme, signed)
        })
    }

    /// Plans for the set of this name. With `insecure_log_n`, its ring has that size and no security.
    #[staticmethod]
    #[pyo3(signature = (name, scheme, signed, insecure_log_n=None))]
    fn preset(
        py: Python<'_>,
        name: String,
        scheme: &str,
        signed: bool,
        insecure_log_n: Option<u32>,
    ) -> Result<Self> {
        let scheme = scheme.parse()?;
        job::run(py, None, move |_| {
            // Only an unknown name falls back to sets without bootstrapping. Other errors are about
            // this set.
            let preset = match bootstrapping_set(&name, insecure_log_n) {
                Err(sudare::Error::UnknownPreset { .. }) => {
                    let mut preset = exact::preset(&name)?;
                    if let Some(log_n) = insecure_log_n {
                        (preset.spec.log_n, preset.spec.insecure) = (log_n, true);
                    }
                    preset
                }
                set => set?.preset,
            };
            Self::named(preset, scheme, signed)
        })
    }

    /// Plans for programs of words of `depth` levels, in the smallest ring at 128 bits.
    #[staticmethod]
    fn words(py: Python<'_>, depth: u32) -> Result<Self> {
        job::run(py, None, move |_| {
            let choice = words::leveled(depth)?;
            let setting = Setting::new(Params::new(choice.spec)?, Scheme::Bgv, true)?;
            Self::new("", setting, choice.reason)?.for_words()
        })
    }

    /// Plans for measuring the depth of programs of words, without security.
    #[staticmethod]
    fn measuring_words(py: Python<'_>) -> Result<Self> {
        job::run(py, None, move |_| {
            Self::new("", words::measuring_setting()?, String::new())?.for_words()
        })
    }

    /// Returns the same plan with the keys of words only.
    fn for_words(&self) -> Result<Self> {
        let set = self.set.clone();
        let request = words::required_keys(&set.setting);
        Ok(Self { set, request, reason: self.reason.clone() })
    }

    /// Returns the names of all sets that bootstrap words, the smallest ring first.
    #[staticmethod]
    fn word_sets() -> Vec<String> {
        words::bootstrapping_sets()
    }

    /// Levels of new arrays, before they are bootstrapped.
    #[getter]
    fn usable_levels(&self) -> u32 {
        let setting = &self.set.setting;
        setting.bootstrapping().map_or(setting.usable_levels(), BootstrapPlan::usable_levels)
    }

    #[getter]
    pub fn parameters(&self) -> IntegerParameters {
        self.set.clone()
    }

    /// Sizes, security and predicted seconds.
    fn report(&self) -> Result<Report> {
        let setting = &self.set.setting;
        let request = &self.request;
        let params = setting.params();
        let (rlwe, Spec { log_n, .. }) = (params.rlwe(), params.spec());
        let keys: Vec<KeySecurity> =
            rlwe.key_security().into_iter().chain(request.key_security(rlwe)?).collect();
        let costs = setting.costs()?;
        Ok(Report {
            params: self.set.label.name.clone(),
            params_id: rlwe.id().to_string(),
            scheme: setting.scheme().to_string(),
            signed: setting.is_signed(),
            t: self.set.t(),
            log_n: *log_n,
            slots: setting.slots(),
            levels: setting.usable_levels(),
            // Each key is judged at its own modulus: the largest and the weakest key describe the
            // set.
            log2_qp: keys.iter().map(|key| key.log2_q).fold(0.0, f64::max),
            security_bits: keys.iter().map(|key| key.security_bits).fold(f64::INFINITY, f64::min),
            product_seconds: costs.product_s,
            rotation_seconds: costs.rotation_s,
            bootstrapping: setting.bootstrapping().map(|plan| Bootstrapping {
                levels: plan.usable_levels(),
                log2_failure: plan.log2_failure(),
                budget_bits: costs.budget_bits,
                seconds: costs.bootstrapping_s,
                matrix_bytes: matrix_bytes(params, plan),
            }),
            evaluation_keys: request.count(),
            evaluation_key_bytes: serial::evaluation_keys_bytes(params, request, &self.set.label)?,
            evaluation_key_memory_bytes: request.bytes(rlwe)?,
            // Two polynomials of eight bytes a residue.
            ciphertext_bytes: 16 * (rlwe.limbs(params.top()).q() << log_n) as u64,
            reason: self.reason.clone(),
        })
    }
}

impl IntegerPlan {
    /// Makes the plan of a named set.
    fn named(preset: Preset, scheme: Scheme, signed: bool) -> Result<Self> {
        let params = Params::new(preset.spec)?;
        let setting = Setting::named(&preset.name, params, scheme, signed)?;
        Self::new(&preset.name, setting, preset.summary)
    }

    /// Makes the plan for any program under these parameters.
    fn new(name: &str, setting: Setting, reason: String) -> Result<Self> {
        let request = setting.required_keys()?;
        let label = key_label(name, &setting)?;
        Ok(Self { set: IntegerParameters { setting, label }, request, reason })
    }
}

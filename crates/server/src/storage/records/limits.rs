//! Limits of what a tenant may have and take.

/// Seconds of processors that the jobs of a tenant may take; any number if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuLimits {
    /// Each day, from midnight to midnight in UTC.
    pub daily_seconds: Option<f64>,
    /// In all.
    pub total_seconds: Option<f64>,
}

/// What a tenant may have under way and keep; anything if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantLimits {
    /// Bytes of objects, of uploads under way, and of what results of jobs under way may have.
    pub bytes: u64,
    /// Objects, and uploads under way.
    pub objects: u64,
    /// Jobs under way.
    pub jobs: u64,
    /// Time of processors of jobs.
    pub cpu: CpuLimits,
}

impl Default for TenantLimits {
    fn default() -> Self {
        let most = u64::MAX;
        Self { bytes: most, objects: most, jobs: most, cpu: CpuLimits::default() }
    }
}

//! Limits of tenants.

/// Limits on the CPU seconds of a tenant's jobs. Default: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuLimits {
    /// CPU seconds per day, from midnight to midnight UTC.
    pub daily_seconds: Option<f64>,
    /// CPU seconds in total.
    pub total_seconds: Option<f64>,
}

/// Limits of a tenant. Default: no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantLimits {
    /// Storage in bytes: objects, uploads under way, and results of jobs under way.
    pub bytes: u64,
    /// Number of objects and uploads under way.
    pub objects: u64,
    /// Jobs under way.
    pub jobs: u64,
    /// CPU time of jobs.
    pub cpu: CpuLimits,
}

impl Default for TenantLimits {
    fn default() -> Self {
        let most = u64::MAX;
        Self { bytes: most, objects: most, jobs: most, cpu: CpuLimits::default() }
    }
}

use super::jobs::{Telemetry, job_program, memory_for_jobs};
use crate::{
    output::{self, Output, say},
    values::gibibytes,
};
use serde::Serialize;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use sudare_arith::par;
use sudare_roles::{
    error::{Error, Result},
    receipt::SigningKey,
};
use sudare_server::{
    Config, CpuLimits, DatabaseAddress, Endpoint, Limits, Origin, Owner, Records, SECONDS_A_DAY,
    Seconds, TenantLimits, TlsFiles, Token, TokenRecord,
};

/// Serve clients over HTTP: they upload keys and tables, and this machine computes
///
/// Clients need a token (`sudare serve token add`) and use `sudare remote`. The server speaks TLS if it has a
/// certificate, else plain HTTP: have it then listen at a Unix socket or at this machine alone, behind a
/// proxy that does TLS. All that it has is in its folder; it may be killed at any time, and jobs go on when it is back.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    sudare serve token add --folder /var/lib/sudare --tenant clinic\n  \
    sudare serve --folder /var/lib/sudare --listen 127.0.0.1:8470\n  \
    sudare serve --folder /var/lib/sudare --socket /run/sudare/http --metrics 127.0.0.1:9470\n  \
    SUDARE_DATABASE=postgresql://… sudare serve --folder /var/lib/sudare --objects s3://bucket --key shared.key")]
pub struct Args {
    #[command(subcommand)]
    step: Option<Step>,
    /// Folder of the server, made if it does not exist
    #[arg(long, value_name = "DIR", required = true)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
    /// Store of objects, which several servers may share: s3://bucket/prefix, gs://, az:// or file:///shared; the folder if left out. Credentials are in the environment, as AWS_ACCESS_KEY_ID
    #[arg(long, env = "SUDARE_OBJECTS", value_name = "URL")]
    objects: Option<String>,
    /// Copies that the folder keeps of what is in that store, in GiB
    #[arg(long, value_name = "GIB", default_value = "64", value_parser = gibibytes)]
    copies: u64,
    /// File of the key that signs receipts, made if there is none; server.key in the folder if left out
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Have this key replace the one by which servers with the same database have signed
    #[arg(long, requires = "database")]
    replace_key: bool,
    /// Address and port; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// Unix socket to listen at, in place of an address
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// Certificate for TLS, in PEM, with those between it and an authority; read again on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "socket")]
    tls_cert: Option<PathBuf>,
    /// Secret key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Address and port where figures are read, in the format of Prometheus, without a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    telemetry: Telemetry,
    /// Memory that jobs may take together, in GiB; three quarters of the machine's if left out
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    memory: Option<u64>,
    /// Jobs that are computed here at a time, each on all threads; 0 leaves them to workers (`sudare work`)
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u16,
    /// Seconds after which a job is given to others whose worker has not renewed its lease
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease: u32,
    /// What a tenant may have here, in GiB
    #[arg(long, value_name = "GIB", default_value = "64", value_parser = gibibytes)]
    tenant_bytes: u64,
    /// Jobs of a tenant that may be under way
    #[arg(long, value_name = "N", default_value_t = 64)]
    tenant_jobs: u64,
    /// Keys, tables, models and results that a tenant may have here, with uploads under way
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    tenant_objects: u64,
    /// Requests that a tenant may make a second; for a moment five times as many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_requests: u32,
    /// Requests that a tenant may have open at a time, streams of events among them
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_open: u32,
    /// Uploads, removals, jobs and first downloads of results that a tenant may make an hour: each is kept in the audit log
    #[arg(long, value_name = "N", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_acts: u32,
    /// Seconds of processors that jobs of a tenant may take each day, by UTC; any number if left out
    #[arg(long, value_name = "SECONDS", value_parser = amount)]
    tenant_cpu_daily: Option<f64>,
    /// Seconds of processors that jobs of a tenant may take in all; any number if left out
    #[arg(long, value_name = "SECONDS", value_parser = amount)]
    tenant_cpu_total: Option<f64>,
    /// How many times the seconds of processors that a job is predicted to take its process may before it is ended, with ten seconds to spare
    #[arg(long, value_name = "TIMES", default_value_t = 30.0, value_parser = amount)]
    overtime: f64,
    /// Keep this much of the disk free, in GiB: uploads and jobs are refused below it; 1 GiB, or a twentieth of a smaller disk, if left out
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    disk_reserve: Option<u64>,
    /// Hours after which an upload is forgotten of which nothing comes
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    upload_hours: u32,
    /// Seconds that a training has to finish its iteration when the server is told to end
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u32,
    /// Origin of pages that may ask from browsers, such as https://page.example; several times for several
    #[arg(long, value_name = "URL")]
    allow_origin: Vec<Origin>,
    /// Take keys and tables whose parameters have less than 128 bits of security, for tests
    #[arg(long)]
    insecure: bool,
}

/// Which database has the records.
#[derive(Debug, Clone, clap::Args)]
struct Database {
    /// Database of PostgreSQL that has the records, which several servers may share, as postgresql://user:password@host/name; a file of the folder if left out
    #[arg(long, env = "SUDARE_DATABASE", hide_env_values = true, value_name = "URL")]
    database: Option<DatabaseAddress>,
}

/// Where the records of a server are.
#[derive(Debug, clap::Args)]
struct At {
    /// Folder of the server
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    database: Database,
}

impl At {
    fn records(&self) -> Result<Records> {
        Records::of(&self.folder, self.database.database.as_ref())
    }
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Who may ask: tokens of tenants, and of workers
    #[command(subcommand)]
    Token(TokenStep),
    /// Show the public key by which clients check receipts, and make the key if there is none
    #[command(after_help = "Example: sudare serve key --folder store")]
    Key {
        /// Folder of the server, made if it does not exist
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// File of the key, as the server is given it
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Check that the audit log is whole: no line altered, left out or put in; also while the server runs
    #[command(after_help = "Examples:\n  \
        sudare serve audit --folder store\n  \
        sudare serve audit --log copies/audit --head 1234:5e1f…")]
    Audit(AuditArgs),
    /// Do the job that standard input names: what the server starts for each
    #[command(hide = true)]
    Job,
}

#[derive(Debug, clap::Subcommand)]
enum TokenStep {
    /// Make a token, and show it once: the server keeps a digest of it alone
    #[command(after_help = "Examples:\n  \
        sudare serve token add --folder store --tenant clinic > clinic.token\n  \
        sudare serve token add --folder store --worker north > north.token")]
    Add {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        of: Of,
        /// Days after which it ends; never if left out
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        days: Option<u32>,
    },
    /// List tokens by their names, which are their first 16 digits
    #[command(after_help = "Example: sudare serve token list --folder store")]
    List {
        #[command(flatten)]
        at: At,
        /// Those of this tenant; of all if left out
        #[arg(long, value_name = "NAME", conflicts_with = "worker")]
        tenant: Option<String>,
        /// Those of this worker
        #[arg(long, value_name = "NAME")]
        worker: Option<String>,
    },
    /// Forget a token of a tenant or a worker, or all of them: they are refused from then on
    #[command(after_help = "Example: sudare serve token revoke --folder store --tenant clinic")]
    Revoke {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        of: Of,
        /// The name of the token, as `list` has it; all of the owner if left out
        name: Option<String>,
    },
}

/// Which log, and what is known of it.
#[derive(Debug, clap::Args)]
struct AuditArgs {
    /// Folder of the server
    #[arg(long, value_name = "DIR", required_unless_present = "log")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
    /// Folder of the log alone, such as a copy
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    log: Option<PathBuf>,
    /// Number and digest of a line, as this command showed them before: it must still be there
    #[arg(long, value_name = "NUMBER:DIGEST", value_parser = head)]
    head: Vec<(u64, String)>,
}

fn head(text: &str) -> core::result::Result<(u64, String), &'static str> {
    let (number, digest) = text.split_once(':').unwrap_or_default();
    let number = number.parse().ok().filter(|_| digest.len() == 64);
    number.map(|number| (number, digest.into())).ok_or("a number, a colon and a digest are needed")
}

/// Whose token it is.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// A tenant, who sends keys and tables and asks for jobs: letters from a to z, digits and -
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// A worker, which does jobs on another machine (`sudare work`) and nothing else: such letters, too
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
}

/// The owner of a token, of whom one is named at most.
fn owner(tenant: &Option<String>, worker: &Option<String>) -> Option<Owner> {
    let tenant = tenant.clone().map(Owner::Tenant);
    tenant.or_else(|| worker.clone().map(Owner::Worker))
}

impl Of {
    fn owner(&self) -> Result<Owner> {
        owner(&self.tenant, &self.worker)
            .ok_or_else(|| Error::Usage("--tenant or --worker is needed".into()))
    }
}

fn amount(text: &str) -> core::result::Result<f64, &'static str> {
    let number = text.parse().ok().filter(|&number: &f64| (0.0..1e12).contains(&number));
    number.ok_or("a number is needed, which is not negative")
}

/// Whether Ctrl-C is the server's own, which ends by it as by SIGTERM.
pub fn minds_interrupts(args: &Args) -> bool {
    matches!(args.step, None | Some(Step::Job))
}

#[derive(Serialize)]
struct Added<'a> {
    name: &'a str,
    #[serde(flatten)]
    owner: &'a Owner,
    token: &'a str,
    expires: Option<Seconds>,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    #[serde(flatten)]
    owner: Owner,
    created: Seconds,
    expires: Option<Seconds>,
}

#[derive(Serialize)]
struct Revoked {
    revoked: usize,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    match &args.step {
        None => serve(args, output),
        Some(Step::Token(step)) => token(step, output),
        Some(Step::Key { folder, key }) => {
            let key = SigningKey::open(&key_path(folder, key.as_deref())?)?;
            let shown = Shown { server_key: key.public().to_string() };
            output.write(&shown, |shown| format!("{}\n", shown.server_key))
        }
        Some(Step::Audit(args)) => audit(args, output),
        Some(Step::Job) => match sudare_server::work() {
            0 => Ok(()),
            // What was said is said on standard output, for the server.
            _ => Err(Error::Stdout(std::io::ErrorKind::BrokenPipe.into())),
        },
    }
}

#[derive(Serialize)]
struct Shown {
    server_key: String,
}

/// The file of the key of a server: that which is named, or the one in its folder.
fn key_path(folder: &Path, named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(|| sudare_server::key_path(folder), |path| Ok(path.into()))
}

#[derive(Serialize)]
struct Serving<'a> {
    listening: &'a str,
}

fn serve(args: &Args, output: Output) -> Result<()> {
    let folder = args.folder.clone().ok_or_else(|| Error::Usage("--folder is needed".into()))?;
    // Before anything is made.
    let collector = args.telemetry.collector()?;
    let config = Config {
        key: key_path(&folder, args.key.as_deref())?,
        replace_key: args.replace_key,
        folder,
        database: args.database.database.clone(),
        objects: args.objects.clone(),
        place: args.socket.clone().map_or(Endpoint::Tcp(args.listen), Endpoint::Unix),
        metrics: args.metrics.map(Endpoint::Tcp),
        collector,
        tls: args
            .tls_cert
            .clone()
            .zip(args.tls_key.clone())
            .map(|(certificate, key)| TlsFiles { certificate, key }),
        limits: Limits {
            memory_bytes: args.memory.unwrap_or_else(memory_for_jobs),
            running_jobs: args.jobs.into(),
            lease_seconds: args.lease,
            disk_reserve: args.disk_reserve,
            copies_bytes: args.copies,
            tenant: TenantLimits {
                bytes: args.tenant_bytes,
                objects: args.tenant_objects,
                jobs: args.tenant_jobs,
                cpu: CpuLimits {
                    daily_seconds: args.tenant_cpu_daily,
                    total_seconds: args.tenant_cpu_total,
                },
            },
            tenant_requests: args.tenant_requests,
            tenant_open: args.tenant_open,
            tenant_acts: args.tenant_acts,
            overtime: args.overtime,
            upload_seconds: Seconds::from(args.upload_hours).saturating_mul(3600),
            grace: Duration::from_secs(args.grace.into()),
            insecure_allowed: args.insecure,
            threads: par::threads(),
            origins: args.allow_origin.clone(),
        },
        program: job_program()?,
    };
    sudare_server::serve(config, |place| {
        let text = |serving: &Serving<'_>| format!("listening at {}\n", serving.listening);
        // Whoever reads it may have gone.
        let _ = output.write(&Serving { listening: place }, text);
    })
}

fn audit(args: &AuditArgs, output: Output) -> Result<()> {
    let checked = match (&args.folder, &args.log) {
        (Some(folder), _) => {
            sudare_server::check_audit(folder, args.database.database.as_ref(), &args.head)
        }
        (None, Some(log)) => sudare_server::check_audit_files(log, &args.head),
        (None, None) => Err(Error::Usage("--folder or --log is needed".into())),
    }?;
    output.write(&checked, |found| {
        let lines = match found.last {
            0 => "none".into(),
            last => format!("{} to {last}, in {} files", found.first, found.files),
        };
        let mut rows = vec![("lines", lines), ("head", found.head.clone())];
        if found.pending > 0 {
            rows.push(("to be appended", found.pending.to_string()));
        }
        output::fields(&rows)
    })
}

fn token(step: &TokenStep, output: Output) -> Result<()> {
    match step {
        TokenStep::Add { at, of, days } => {
            let owner = of.owner()?;
            owner.check()?;
            let (token, now) = (Token::random()?, sudare_server::now());
            let expires = days
                .map(|days| now.saturating_add(Seconds::from(days).saturating_mul(SECONDS_A_DAY)));
            at.records()?.add_token(&token.record(owner.clone(), now, expires))?;
            let text = token.text();
            let added = Added { name: token.id(), owner: &owner, token: &text, expires };
            if !output.json {
                say("this is shown once: keep it where its owner alone can read it");
            }
            output.write(&added, |added| format!("{}\n", added.token))
        }
        TokenStep::List { at, tenant, worker } => {
            let tokens = at.records()?.tokens(owner(tenant, worker).as_ref())?;
            let listed =
                tokens.into_iter().map(|TokenRecord { id, owner, created, expires, .. }| Listed {
                    name: id,
                    owner,
                    created,
                    expires,
                });
            output.write(&listed.collect::<Vec<_>>(), |listed| list_text(listed))
        }
        TokenStep::Revoke { at, of, name } => {
            let owner = of.owner()?;
            let revoked = at.records()?.revoke(&owner, name.as_deref())?;
            if revoked == 0 {
                let name = name.as_deref().unwrap_or("any");
                return Err(Error::Usage(format!(
                    "{} has no token {name}: `sudare serve token list` has all",
                    owner.name()
                )));
            }
            let text = |revoked: &Revoked| format!("{} revoked\n", revoked.revoked);
            output.write(&Revoked { revoked }, text)
        }
    }
}

fn list_text(listed: &[Listed]) -> String {
    let now = sudare_server::now();
    let rows = listed.iter().map(|token| {
        let days = |seconds: Seconds| format!("{:.1} days", seconds as f64 / SECONDS_A_DAY as f64);
        let ends =
            token.expires.map_or("never".into(), |expires| match expires.saturating_sub(now) {
                left @ 1.. => format!("in {}", days(left)),
                _ => "ended".into(),
            });
        let made = format!("{} ago", days(now.saturating_sub(token.created)));
        let of = match &token.owner {
            Owner::Tenant(_) => "tenant",
            Owner::Worker(_) => "worker",
        };
        vec![token.name.clone(), of.into(), token.owner.name().into(), made, ends]
    });
    output::table(&["token", "of", "name", "made", "ends"], &rows.collect::<Vec<_>>())
}

use super::jobs::{Telemetry, job_program, memory_for_jobs};
use crate::{
    output::{self, Output, say},
    remote::expect_ready,
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
    server::receipt::SigningKey,
    text::size,
};
use sudare_server::{
    Backup, Config, CpuLimits, DatabaseAddress, Endpoint, Limits, Origin, Owner, Records,
    SECONDS_A_DAY, Seconds, TenantLimits, TlsFiles, Token, TokenRecord,
};

/// Serve clients over HTTP: they upload keys and tables, and this machine computes
///
/// Clients need a token (`sudare serve token add`) and use `sudare remote`. With a certificate the
/// server speaks TLS, else plain HTTP. Without TLS, let it listen at a Unix socket or at this
/// machine alone, behind a proxy that does TLS. The server stores everything in its directory. You
/// may kill it at any time: jobs continue after a restart.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    sudare serve token add --folder /var/lib/sudare --tenant clinic\n  \
    sudare serve --folder /var/lib/sudare --listen 127.0.0.1:8470\n  \
    sudare serve --folder /var/lib/sudare --listen 10.0.0.7:8470 --tls-self-signed tls --tls-name server.example\n  \
    sudare serve --folder /var/lib/sudare --socket /run/sudare/http --metrics 127.0.0.1:9470\n  \
    SUDARE_DATABASE=postgresql://… sudare serve --folder /var/lib/sudare --objects s3://bucket --key shared.key")]
pub struct Args {
    #[command(subcommand)]
    step: Option<Step>,
    /// Directory of the server, created if it does not exist
    #[arg(long, value_name = "DIR", required = true)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
    /// Store of objects, which several servers may share: s3://bucket/prefix, gs://, az:// or
    /// file:///shared; default: the directory. Credentials are environment variables, such as
    /// AWS_ACCESS_KEY_ID
    #[arg(long, env = "SUDARE_OBJECTS", value_name = "URL")]
    objects: Option<String>,
    /// Maximum size of the local copies of objects in that store, in GiB
    #[arg(long, value_name = "GIB", default_value = "64", value_parser = gibibytes)]
    copies: u64,
    /// File of the key that signs receipts, created if it does not exist; default: server.key in
    /// the directory
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Replace the signing key of the servers that share the database with this key
    #[arg(long, requires = "database")]
    replace_key: bool,
    /// Address and port to listen at; port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// Unix socket to listen at, in place of an address
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// TLS certificate, in PEM, with its intermediate certificates; the server reads it again on
    /// SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "socket")]
    tls_cert: Option<PathBuf>,
    /// Secret key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Directory of a self-signed certificate for TLS, cert.pem, and its key, key.pem, both created
    /// if they do not exist; clients trust the certificate with --ca
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tls_cert", "socket"])]
    tls_self_signed: Option<PathBuf>,
    /// Host name or IP address that clients use, for the self-signed certificate; repeat the option
    /// for several; default: the address of --listen, and localhost
    #[arg(long, value_name = "NAME", requires = "tls_self_signed")]
    tls_name: Vec<String>,
    /// Address and port for metrics in the format of Prometheus, without a token; default: no
    /// metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    telemetry: Telemetry,
    /// Memory that jobs may use together, in GiB; default: three quarters of the machine's, or of the
    /// limit of its container
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    memory: Option<u64>,
    /// Number of jobs that this machine computes at a time, each on all threads; 0 leaves them to
    /// workers (`sudare work`)
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u16,
    /// Seconds without a renewal after which a worker loses its job; 1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease: u32,
    /// Storage quota per tenant, in GiB
    #[arg(long, value_name = "GIB", default_value = "64", value_parser = gibibytes)]
    tenant_bytes: u64,
    /// Maximum number of unfinished jobs per tenant
    #[arg(long, value_name = "N", default_value_t = 64)]
    tenant_jobs: u64,
    /// Maximum number of keys, tables, models and results per tenant, with unfinished uploads
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    tenant_objects: u64,
    /// Maximum number of requests per second and tenant, with bursts of five times that number
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_requests: u32,
    /// Maximum number of open requests per tenant, with event streams
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_open: u32,
    /// Maximum number of uploads, removals, jobs and first downloads of results per hour and
    /// tenant, because the audit log stores each
    #[arg(long, value_name = "N", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    tenant_acts: u32,
    /// CPU time that jobs of a tenant may use per day, in seconds, by UTC; default: no limit
    #[arg(long, value_name = "SECONDS", value_parser = amount)]
    tenant_cpu_daily: Option<f64>,
    /// CPU time that jobs of a tenant may use in total, in seconds; default: no limit
    #[arg(long, value_name = "SECONDS", value_parser = amount)]
    tenant_cpu_total: Option<f64>,
    /// Multiple of its predicted CPU time, plus 10 s, after which a job is stopped
    #[arg(long, value_name = "TIMES", default_value_t = 30.0, value_parser = amount)]
    overtime: f64,
    /// Free disk space below which uploads and jobs are refused, in GiB; default: 1, or a twentieth
    /// of a smaller disk
    #[arg(long, value_name = "GIB", value_parser = gibibytes)]
    disk_reserve: Option<u64>,
    /// Hours without data after which an upload is deleted
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    upload_hours: u32,
    /// Seconds in which a training may finish its iteration when the server is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    grace: u32,
    /// Origin of pages in browsers that may use the service, such as https://page.example; repeat
    /// the option for several; default: none
    #[arg(long, value_name = "URL")]
    allow_origin: Vec<Origin>,
    /// Accept keys and tables with less than 128 bits of security, for tests
    #[arg(long)]
    insecure: bool,
}

/// The database of the records.
#[derive(Debug, Clone, clap::Args)]
struct Database {
    /// PostgreSQL database for the records, which several servers may share, as
    /// postgresql://user:password@host/name; default: a file in the directory
    #[arg(long, env = "SUDARE_DATABASE", hide_env_values = true, value_name = "URL")]
    database: Option<DatabaseAddress>,
}

/// Location of the records of a server.
#[derive(Debug, clap::Args)]
struct At {
    /// Directory of the server
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
    /// Manage the tokens of tenants and workers
    #[command(subcommand)]
    Token(TokenStep),
    /// Show the public key by which clients check receipts; create the key if it does not exist
    #[command(after_help = "Example: sudare serve key --folder store")]
    Key {
        /// Directory of the server, created if it does not exist
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// File of the key, as you pass it to the server; default: server.key in the directory
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Check that no line of the audit log was changed, removed or inserted, also while the server
    /// runs
    #[command(after_help = "Examples:\n  \
        sudare serve audit --folder store\n  \
        sudare serve audit --log copies/audit --head 1234:5e1f…")]
    Audit(AuditArgs),
    /// Check that a server is ready for jobs, as containers do: exit status 0, or 2 with the reason
    #[command(after_help = "Example: sudare serve health --url http://127.0.0.1:8470")]
    Health {
        /// Address of the server
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8470")]
        url: String,
        /// File of the certificates, in PEM, that sign the server's certificate; default: public
        /// authorities
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,
    },
    /// Copy the directory of a server to a new directory, also while the server runs
    ///
    /// The copy has the records, objects, states of trainings, audit log and key. It lacks unfinished
    /// uploads, which clients repeat. Trainings go on from their last states.
    #[command(
        after_help = "Example: sudare serve backup --folder /var/lib/sudare /backup/sudare-monday"
    )]
    Backup {
        #[command(flatten)]
        at: At,
        /// Directory of the backup, created if it does not exist; must be empty
        #[arg(value_name = "BACKUP")]
        target: PathBuf,
        /// Leave out the objects, which a store of the server's --objects has
        #[arg(long)]
        without_objects: bool,
    },
    /// Make the directory of a server from a backup
    #[command(
        after_help = "Example: sudare serve restore --folder /var/lib/sudare /backup/sudare-monday"
    )]
    Restore {
        /// Directory of the server, created if it does not exist; must be empty
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// Directory of the backup
        #[arg(value_name = "BACKUP")]
        backup: PathBuf,
    },
    /// Do the job on standard input: the server starts this command for each job
    #[command(hide = true)]
    Job,
}

#[derive(Debug, clap::Subcommand)]
enum TokenStep {
    /// Create a token and print it once: the server stores only its digest
    #[command(after_help = "Examples:\n  \
        sudare serve token add --folder store --tenant clinic > clinic.token\n  \
        sudare serve token add --folder store --worker north > north.token")]
    Add {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        of: Of,
        /// Days until the token expires; default: never
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        days: Option<u32>,
    },
    /// List tokens by name, which is the first 16 digits of each
    #[command(after_help = "Example: sudare serve token list --folder store")]
    List {
        #[command(flatten)]
        at: At,
        /// Tenant whose tokens are listed; default: all tenants and workers
        #[arg(long, value_name = "NAME", conflicts_with = "worker")]
        tenant: Option<String>,
        /// Worker whose tokens are listed
        #[arg(long, value_name = "NAME")]
        worker: Option<String>,
    },
    /// Revoke a token of a tenant or a worker, or all of them: the server refuses them from then on
    #[command(after_help = "Example: sudare serve token revoke --folder store --tenant clinic")]
    Revoke {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        of: Of,
        /// Name of the token, as `list` prints it; default: all tokens of the owner
        name: Option<String>,
    },
}

/// An audit log, and earlier heads of it.
#[derive(Debug, clap::Args)]
struct AuditArgs {
    /// Directory of the server
    #[arg(long, value_name = "DIR", required_unless_present = "log")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    database: Database,
    /// Directory of the log alone, such as a copy
    #[arg(long, value_name = "DIR", conflicts_with = "folder")]
    log: Option<PathBuf>,
    /// Number and digest of a line, as this command printed them before; the line must still be
    /// there
    #[arg(long, value_name = "NUMBER:DIGEST", value_parser = head)]
    head: Vec<(u64, String)>,
}

fn head(text: &str) -> core::result::Result<(u64, String), &'static str> {
    let (number, digest) = text.split_once(':').unwrap_or_default();
    // A shortened digest would match no line, and look like an altered log.
    let number = number.parse().ok().filter(|_| digest.len() == 64);
    number
        .map(|number| (number, digest.into()))
        .ok_or("expected NUMBER:DIGEST, as `sudare serve audit` prints it")
}

/// Owner of a token.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// Tenant, who uploads keys and tables and submits jobs; characters a to z, digits and -
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Worker, which only does jobs on another machine (`sudare work`); characters a to z, digits
    /// and -
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
}

/// Returns the owner of a token; at most one is named.
fn owner(tenant: &Option<String>, worker: &Option<String>) -> Option<Owner> {
    let tenant = tenant.clone().map(Owner::Tenant);
    tenant.or_else(|| worker.clone().map(Owner::Worker))
}

impl Of {
    fn owner(&self) -> Result<Owner> {
        owner(&self.tenant, &self.worker).ok_or_else(|| {
            Error::Usage("no owner of the token: pass --tenant NAME or --worker NAME".into())
        })
    }
}

fn amount(text: &str) -> core::result::Result<f64, &'static str> {
    let number = text.parse().ok().filter(|&number: &f64| (0.0..1e12).contains(&number));
    number.ok_or("expected a number that is not negative")
}

/// Decides whether the server handles Ctrl-C itself: it stops as on SIGTERM.
pub fn minds_interrupts(args: &Args) -> bool {
    // The other steps are short, so Ctrl-C may end them.
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
        Some(Step::Health { url, ca }) => {
            expect_ready(url, ca.as_deref())?;
            output.write(&Health { ready: true }, |_| "ready\n".into())
        }
        Some(Step::Backup { at, target, without_objects }) => {
            backup(at, target, *without_objects, output)
        }
        Some(Step::Restore { folder, backup }) => {
            let restored = sudare_server::restore(backup, folder)?;
            output.write(&restored, |restored| backup_text(restored, folder))
        }
        Some(Step::Job) => match sudare_server::work() {
            0 => Ok(()),
            // The job has reported its failure to the server on standard output.
            _ => Err(Error::Stdout(std::io::ErrorKind::BrokenPipe.into())),
        },
    }
}

#[derive(Serialize)]
struct Health {
    ready: bool,
}

#[derive(Serialize)]
struct Shown {
    server_key: String,
}

/// Returns the file of the key of a server: the named file, or the one in its directory.
fn key_path(folder: &Path, named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(|| sudare_server::key_path(folder), |path| Ok(path.into()))
}

#[derive(Serialize)]
struct Serving<'a> {
    listening: &'a str,
    /// File of the self-signed certificate that clients trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'a Path>,
}

fn serve(args: &Args, output: Output) -> Result<()> {
    let folder = args
        .folder
        .clone()
        .ok_or_else(|| Error::Usage("no directory: pass --folder DIR".into()))?;
    // Checked before the server creates anything.
    let collector = args.telemetry.collector()?;
    let config = Config {
        key: key_path(&folder, args.key.as_deref())?,
        replace_key: args.replace_key,
        folder,
        database: args.database.database.clone(),
        objects: args.objects.clone(),
        // The address has a default, so the socket, if given, decides.
        place: args.socket.clone().map_or(Endpoint::Tcp(args.listen), Endpoint::Unix),
        metrics: args.metrics.map(Endpoint::Tcp),
        collector,
        tls: tls(args)?,
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
    let self_signed = args.tls_self_signed.as_ref().and(config.tls.clone());
    let certificate = self_signed.map(|files| files.certificate);
    sudare_server::serve(config, |place| {
        let serving = Serving { listening: place, certificate: certificate.as_deref() };
        let text = |serving: &Serving<'_>| format!("listening at {}\n", serving.listening);
        // The reader of standard output may have gone.
        let _ = output.write(&serving, text);
        if let Some(file) = &certificate {
            print_trust_advice(file, args);
        }
    })
}

/// Returns the files of the certificate for TLS. Makes a self-signed one if the options say so.
fn tls(args: &Args) -> Result<Option<TlsFiles>> {
    let Some(folder) = &args.tls_self_signed else {
        let files = args.tls_cert.clone().zip(args.tls_key.clone());
        return Ok(files.map(|(certificate, key)| TlsFiles { certificate, key }));
    };
    let mut names = args.tls_name.clone();
    // Clients cannot connect to the address that stands for all addresses.
    if !args.listen.ip().is_unspecified() {
        names.push(args.listen.ip().to_string());
    }
    TlsFiles::self_signed(folder, &names).map(Some)
}

fn print_trust_advice(certificate: &Path, args: &Args) {
    say(format_args!(
        "the certificate is self-signed: copy {} to the clients over a channel that you trust; they pass it \
         with --ca, and in Python with verify",
        certificate.display()
    ));
    if args.listen.ip().is_unspecified() && args.tls_name.is_empty() {
        say(
            "the certificate is for localhost alone: name the hosts that clients use with --tls-name",
        );
    }
}

fn audit(args: &AuditArgs, output: Output) -> Result<()> {
    let checked = match (&args.folder, &args.log) {
        (Some(folder), _) => {
            sudare_server::check_audit(folder, args.database.database.as_ref(), &args.head)
        }
        (None, Some(log)) => sudare_server::check_audit_files(log, &args.head),
        (None, None) => Err(Error::Usage("no log: pass --folder DIR or --log DIR".into())),
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

fn backup(at: &At, target: &Path, without_objects: bool, output: Output) -> Result<()> {
    if at.database.database.is_some() {
        return Err(Error::Usage(format!(
            "the records are in a database: back it up with pg_dump, then the store of --objects by its own \
             means, and copy the key file of --key (default: {})",
            at.folder.join("server.key").display()
        )));
    }
    let backup = sudare_server::back_up(&at.folder, target, without_objects)?;
    if backup.has_key {
        say("the backup has the server's secret key: store it where only you can read it");
    } else {
        say("the key that signs receipts is in another file (--key): back it up, too");
    }
    output.write(&backup, |backup| backup_text(backup, target))
}

fn backup_text(backup: &Backup, folder: &Path) -> String {
    let objects = match backup.is_without_objects {
        true => "in a store".into(),
        false => format!("{} ({})", backup.objects, size::bytes(backup.bytes)),
    };
    output::fields(&[
        ("directory", folder.display().to_string()),
        ("objects", objects),
        ("trainings under way", backup.trainings.to_string()),
        ("audit log", format!("up to line {}", backup.audit_line)),
        ("server key", if backup.has_key { "copied" } else { "not copied" }.into()),
    ])
}

fn token(step: &TokenStep, output: Output) -> Result<()> {
    match step {
        TokenStep::Add { at, of, days } => {
            let owner = of.owner()?;
            owner.check()?;
            let token = Token::random()?;
            let now = sudare_server::now();
            let expires = days
                .map(|days| now.saturating_add(Seconds::from(days).saturating_mul(SECONDS_A_DAY)));
            at.records()?.add_token(&token.record(owner.clone(), now, expires))?;
            let text = token.text();
            let added = Added { name: token.id(), owner: &owner, token: &text, expires };
            // In JSON the caller is a program that reads the token from the object.
            if !output.json {
                say("this token is shown only once: store it where only its owner can read it");
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
            // A typing error must not look like success: the token would stay valid.
            if revoked == 0 {
                let name = name.as_deref().unwrap_or("any");
                return Err(Error::Usage(format!(
                    "{} has no token {name}: list the tokens with `sudare serve token list`",
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
                _ => "expired".into(),
            });
        let made = format!("{} ago", days(now.saturating_sub(token.created)));
        let of = match &token.owner {
            Owner::Tenant(_) => "tenant",
            Owner::Worker(_) => "worker",
        };
        vec![token.name.clone(), of.into(), token.owner.name().into(), made, ends]
    });
    output::table(&["token", "of", "name", "created", "expires"], &rows.collect::<Vec<_>>())
}

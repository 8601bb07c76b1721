//! The control plane itself: which programs, with which arguments, in which order, and their end.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

use serde_json::{Value, json};

use super::api::{Api, eventually};
use super::certificates::{self, Certificates};
use super::folder::folder;
use super::process::Program;
use super::{kueue, users};

/// How long a program may take until it answers. On two cores that others use too, a minute has been seen.
const MOST_SECS_TO_START: u64 = 180;

/// So many directories of failed tests are kept, the newest: each has some hundred megabytes.
const MOST_KEPT: usize = 3;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Jobs, scheduling and nodes; without them the API server alone, which is enough for schemas and admission.
    pub running: bool,
    /// What Kueue's Configuration says besides what the bench needs; none is no Kueue.
    pub kueue: Option<Value>,
    /// More arguments, by program.
    pub arguments: BTreeMap<&'static str, Vec<String>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { running: true, kueue: Some(json!({})), arguments: BTreeMap::new() }
    }
}

impl Settings {
    /// PodGroups are served behind a gate as yet.
    pub fn with_pod_groups() -> Settings {
        let gates = ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true"];
        let arguments = [("kube-apiserver", gates.map(str::to_owned).to_vec())].into();
        Settings { arguments, ..Settings::default() }
    }

    /// The scheduler is elected, as it is in a real cluster, and Kueue is not there.
    pub fn with_election() -> Settings {
        let arguments = [("kube-scheduler", vec!["--leader-elect=true".to_owned()])].into();
        Settings { kueue: None, arguments, ..Settings::default() }
    }

    pub fn api_server_alone() -> Settings {
        Settings { running: false, kueue: None, arguments: BTreeMap::new() }
    }
}

pub struct Controlplane {
    pub api: Api,
    /// What `tidewright` and the like are given: everything is allowed.
    pub kubeconfig: PathBuf,
    pub directory: PathBuf,
    pub(super) url: String,
    pub(super) certificates: Certificates,
    settings: Settings,
    ports: Ports,
    programs: Mutex<BTreeMap<String, Program>>,
    /// Locked as long as we live, so that another run knows that the directory is in use.
    _lock: File,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    etcd: u16,
    etcd_peers: u16,
    api: u16,
    controllers: u16,
    scheduler: u16,
    webhooks: u16,
    kueue: u16,
    kwok: u16,
}

/// So many tests may each have a whole control plane at work. They mostly wait, so that two of them keep a machine of
/// two cores busy, and more would only be in each other's way. Fleets that are applied to one cluster at once would write
/// the same objects, so each floor has a shared control plane of its own.
const FLOORS: usize = 2;

struct Floor {
    number: usize,
}

static TAKEN: Mutex<[bool; FLOORS]> = Mutex::new([false; FLOORS]);
static LEFT: Condvar = Condvar::new();

/// Waits until a floor is free, and takes the first one.
fn floor() -> Floor {
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        if let Some(number) = taken.iter().position(|taken| !taken) {
            taken[number] = true;
            return Floor { number };
        }
        taken = LEFT.wait(taken).unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[self.number] = false;
        LEFT.notify_one();
    }
}

/// A control plane for all tests of this process that do not disturb it: names apart, nothing restarted. It lives until
/// the process ends, and then its watchdogs end it. Which of them a test gets depends on who is first: what one test
/// leaves another one may find, or not.
pub fn shared() -> Option<Shared> {
    folder()?;
    let floor = floor();
    Some(Shared { plane: of_floor(floor.number), _floor: Some(floor) })
}

/// The first of them without a floor, for tests that apply no fleet and mostly wait.
pub fn beside() -> Option<Shared> {
    folder()?;
    Some(Shared { plane: of_floor(0), _floor: None })
}

fn of_floor(number: usize) -> &'static Controlplane {
    static SHARED: [OnceLock<Option<Controlplane>>; FLOORS] = [const { OnceLock::new() }; FLOORS];
    // What cannot start is not tried again by each of a hundred tests.
    let start = || std::panic::catch_unwind(|| Controlplane::launch(Settings::with_pod_groups())).ok().flatten();
    let plane = SHARED[number].get_or_init(start).as_ref();
    plane.expect("the shared control plane did not start; the first test that asked for it says why")
}

/// The shared control plane in the hands of one test.
pub struct Shared {
    plane: &'static Controlplane,
    _floor: Option<Floor>,
}

impl Deref for Shared {
    type Target = Controlplane;

    fn deref(&self) -> &Controlplane {
        self.plane
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.plane.keep();
        }
    }
}

/// A control plane of one test, which has the floor as long as it runs.
pub struct Own {
    plane: Controlplane,
    _floor: Floor,
}

impl Deref for Own {
    type Target = Controlplane;

    fn deref(&self) -> &Controlplane {
        &self.plane
    }
}

impl Controlplane {
    /// Starts one of its own; when this returns, every program answers. None where the programs are missing.
    pub fn start(settings: Settings) -> Option<Own> {
        folder()?;
        let floor = floor();
        Controlplane::launch(settings).map(|plane| Own { plane, _floor: floor })
    }

    /// The same without the floor, for one that is shared.
    pub fn launch(settings: Settings) -> Option<Controlplane> {
        let folder = folder()?;
        let (directory, lock) = fresh_directory();
        let ports = Ports::free();
        let certificates = certificates::write(&directory.join("certificates"));
        let url = format!("https://127.0.0.1:{}", ports.api);
        users::write_tokens(&directory);
        let kubeconfig =
            users::write_kubeconfig(&directory, "admin", &url, &certificates.authority, &users::token("admin"));
        let plane = Controlplane {
            api: Api::new(&kubeconfig),
            kubeconfig,
            directory,
            url,
            certificates,
            settings,
            ports,
            programs: Mutex::default(),
            _lock: lock,
        };
        plane.run("etcd", plane.etcd());
        std::fs::write(plane.directory.join("audit-policy.yaml"), AUDIT_POLICY).unwrap();
        plane.run("kube-apiserver", plane.api_server());
        plane.wait_for_api_server();
        if plane.settings.running {
            plane.run("kube-controller-manager", plane.controllers());
            plane.run("kube-scheduler", plane.scheduler(plane.ports.scheduler));
            plane.run("kwok", plane.kwok(&folder.join("manifests/kwok")));
        }
        if let Some(more) = &plane.settings.kueue {
            plane.start_kueue(&folder.join("manifests/kueue"), more);
        }
        plane.wait_for_the_rest();
        Some(plane)
    }

    /// Kills the API server and starts it again, on the same port and the same data.
    pub fn restart_api_server(&self) {
        self.stop("kube-apiserver");
        self.start_again("kube-apiserver");
        self.wait_for_api_server();
    }

    /// Kills one program; calls to it fail until it is started again.
    pub fn stop(&self, name: &str) {
        self.programs().get_mut(name).unwrap().stop();
    }

    pub fn start_again(&self, name: &str) {
        self.programs().get_mut(name).unwrap().start_again();
    }

    /// Kueue with another Configuration: it reads it only when it starts.
    pub fn restart_kueue(&self, more: &Value) {
        self.stop("kueue");
        self.write("kueue.yaml", &kueue::configuration(self.ports.webhooks, self.ports.kueue, &self.directory, more));
        self.start_again("kueue");
        self.wait_for("kueue", &format!("http://127.0.0.1:{}/readyz", self.ports.kueue));
    }

    /// One more kube-scheduler, beside the default one, with a file of its own and as the user of this kubeconfig, which
    /// in a pod would be where Kubernetes puts it. Returns when it answers.
    pub fn start_scheduler(&self, name: &str, kubeconfig: &Path, mut configuration: Value) {
        configuration["clientConnection"]["kubeconfig"] = json!(kubeconfig);
        let file = format!("{name}.yaml");
        self.write(&file, &configuration);
        let port = free_port();
        // What is said here would win against the file.
        let mut arguments = self.serving(port);
        arguments.push(format!("--config={}", self.directory.join(file).display()));
        self.programs().insert(name.to_owned(), self.program(name, "kube-scheduler", arguments));
        self.wait_for(name, &format!("https://127.0.0.1:{port}/readyz"));
    }

    /// Says where the logs are, and leaves them there.
    pub fn keep(&self) {
        let _ = std::fs::write(self.directory.join("kept"), "");
        eprintln!("the logs of the control plane: {}", self.directory.display());
    }

    fn programs(&self) -> MutexGuard<'_, BTreeMap<String, Program>> {
        self.programs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn run(&self, name: &'static str, mut arguments: Vec<String>) {
        arguments.extend(self.settings.arguments.get(name).into_iter().flatten().cloned());
        self.programs().insert(name.to_owned(), self.program(name, name, arguments));
    }

    fn program(&self, name: &str, program: &str, arguments: Vec<String>) -> Program {
        let folder = folder().expect("nothing is started without the folder");
        Program::start(name, &self.directory, &folder.join(program), &arguments)
    }

    fn write(&self, name: &str, content: &Value) {
        std::fs::write(self.directory.join(name), serde_json::to_vec_pretty(content).unwrap()).unwrap();
    }

    fn wait_for_api_server(&self) {
        self.wait_until("kube-apiserver", || self.api.get("/readyz").is_ok());
    }

    fn wait_for_the_rest(&self) {
        let loopback = |scheme: &str, port: u16, path: &str| format!("{scheme}://127.0.0.1:{port}/{path}");
        if self.settings.running {
            self.wait_for("kube-controller-manager", &loopback("https", self.ports.controllers, "healthz"));
            self.wait_for("kube-scheduler", &loopback("https", self.ports.scheduler, "readyz"));
            self.wait_for("kwok", &loopback("http", self.ports.kwok, "healthz"));
        }
        if self.settings.kueue.is_some() {
            self.wait_for("kueue", &loopback("http", self.ports.kueue, "readyz"));
        }
    }

    fn wait_for(&self, name: &str, url: &str) {
        let authority = &self.certificates.authority;
        let (base, path) = url.rsplit_once('/').unwrap();
        let anonymous = users::write_kubeconfig(&self.directory, &format!("probe-{name}"), base, authority, "");
        let probe = Api::new(&anonymous);
        self.wait_until(name, || probe.get(&format!("/{path}")).is_ok());
    }

    fn wait_until(&self, name: &str, mut answers: impl FnMut() -> bool) {
        eventually(&format!("{name} answers; its log is in {}", self.directory.display()), MOST_SECS_TO_START, || {
            if let Some(why) = self.programs().get_mut(name).unwrap().ended() {
                panic!("{why}");
            }
            answers().then_some(())
        });
    }

    fn start_kueue(&self, manifests: &Path, more: &Value) {
        let authority = std::fs::read(&self.certificates.authority).unwrap();
        kueue::install(&self.api, manifests, self.ports.webhooks, &authority);
        let certificates = self.directory.join("certificates");
        std::os::unix::fs::symlink(certificates, self.directory.join("metrics-certs")).unwrap();
        self.write("kueue.yaml", &kueue::configuration(self.ports.webhooks, self.ports.kueue, &self.directory, more));
        let kubeconfig = users::component_kubeconfig(&self.directory, "kueue");
        self.run(
            "kueue",
            vec![
                format!("--config={}", self.directory.join("kueue.yaml").display()),
                format!("--kubeconfig={}", kubeconfig.display()),
                "--feature-gates=VisibilityOnDemand=false".to_owned(),
            ],
        );
    }

    fn etcd(&self) -> Vec<String> {
        let clients = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peers = format!("http://127.0.0.1:{}", self.ports.etcd_peers);
        vec![
            format!("--data-dir={}", self.directory.join("etcd").display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            // What a crash of the machine would lose is lost to nobody.
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let (private, public) = (&self.certificates.service_accounts, &self.certificates.service_accounts_public);
        let mut arguments = self.serving(self.ports.api);
        arguments.extend([
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--token-auth-file={}", self.directory.join("tokens.csv").display()),
            format!("--service-account-key-file={}", public.display()),
            format!("--service-account-signing-key-file={}", private.display()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // Nobody makes the service accounts that this plugin would wait for.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            // The kubernetes Service needs an address that is not loopback, and nobody needs the Service.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--audit-policy-file={}", self.directory.join("audit-policy.yaml").display()),
            format!("--audit-log-path={}", self.directory.join("audit.log").display()),
            "--audit-log-maxsize=10000".to_owned(),
        ]);
        arguments
    }

    fn controllers(&self) -> Vec<String> {
        let kubeconfig = users::component_kubeconfig(&self.directory, "kube-controller-manager");
        let mut arguments = self.serving(self.ports.controllers);
        arguments.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--service-account-private-key-file={}", self.certificates.service_accounts.display()),
            "--controllers=*,-nodeipam,-node-route-controller,-cloud-node-lifecycle-controller".to_owned(),
            "--leader-elect=false".to_owned(),
            // With the default of 20 the last pod of 40 evicted gangs is gone after a minute and a half.
            "--kube-api-qps=300".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ]);
        arguments
    }

    fn scheduler(&self, port: u16) -> Vec<String> {
        let kubeconfig = users::component_kubeconfig(&self.directory, "kube-scheduler");
        let mut arguments = self.serving(port);
        arguments.extend([format!("--kubeconfig={}", kubeconfig.display()), "--leader-elect=false".to_owned()]);
        arguments.extend(["--kube-api-qps=300".to_owned(), "--kube-api-burst=400".to_owned()]);
        arguments
    }

    fn serving(&self, port: u16) -> Vec<String> {
        vec![
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", self.certificates.certificate.display()),
            format!("--tls-private-key-file={}", self.certificates.key.display()),
        ]
    }

    fn kwok(&self, stages: &Path) -> Vec<String> {
        let kubeconfig = users::component_kubeconfig(&self.directory, "kwok");
        std::fs::write(self.directory.join("stages.yaml"), STAGES).unwrap();
        let mut arguments = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--manage-all-nodes=true".to_owned(),
            // Without leases the nodes are soon NotReady, and Kueue moves what runs on them.
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--server-address=127.0.0.1:{}", self.ports.kwok),
            format!("--config={}", self.directory.join("stages.yaml").display()),
        ];
        let mut found: Vec<PathBuf> = std::fs::read_dir(stages).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        arguments.extend(found.iter().map(|stage| format!("--config={}", stage.display())));
        arguments
    }
}

impl Drop for Controlplane {
    fn drop(&mut self) {
        self.programs().clear();
        if std::thread::panicking() {
            self.keep();
        } else {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

impl Ports {
    fn free() -> Ports {
        Ports {
            etcd: free_port(),
            etcd_peers: free_port(),
            api: free_port(),
            controllers: free_port(),
            scheduler: free_port(),
            webhooks: free_port(),
            kueue: free_port(),
            kwok: free_port(),
        }
    }
}

/// A port that nobody listens on. Below the range from which the system takes those of outgoing connections: one of
/// those could sit on the API server's port while it restarts.
fn free_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    loop {
        // Two runs on one machine start far apart.
        let from = std::process::id() as usize * 64 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + (from % 18_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A directory of our own below cargo's, locked; those of runs that were killed go.
fn fresh_directory() -> (PathBuf, File) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("controlplane");
    std::fs::create_dir_all(&all).unwrap();
    let mut unused: Vec<PathBuf> = std::fs::read_dir(&all).unwrap().map(|entry| entry.unwrap().path()).collect();
    unused.retain(|old| File::open(old.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok()));
    let kept_at = |old: &PathBuf| std::fs::metadata(old.join("kept")).and_then(|kept| kept.modified()).ok();
    unused.sort_by_key(kept_at);
    let kept = unused.iter().filter(|old| kept_at(old).is_some()).count().min(MOST_KEPT);
    for old in &unused[..unused.len() - kept] {
        let _ = std::fs::remove_dir_all(old);
    }
    let directory = all.join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir(&directory).unwrap();
    let lock = File::create(directory.join("lock")).unwrap();
    lock.lock().unwrap();
    (directory, lock)
}

/// Who did what, with the objects of every change; of what nodes and pods say all the time only that they said it.
const AUDIT_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, resources: [{group: coordination.k8s.io, resources: [leases]}]}
- {level: None, nonResourceURLs: ["/readyz*", "/healthz*", "/livez*"]}
- {level: Metadata, verbs: [get, list, watch]}
- {level: Metadata, resources: [{group: "", resources: [nodes/status, pods/status, events]}]}
- {level: Metadata, resources: [{group: events.k8s.io}, {group: apiextensions.k8s.io}]}
- {level: RequestResponse}
"#;

/// What KWOK does beside what it was released with.
///
/// Its own `node-initialize` writes the node's resources back as it last saw them, which on a busy machine is a while
/// ago: GPUs that were gone came back. Ours leaves them alone, and a node with the annotation `bench.test/left-alone` too,
/// so that a test can take its readiness away.
///
/// A pod with the annotation `bench.test/ends-after` ends well after that time; all others run until they are removed.
const STAGES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-initialize}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: NotIn, values: ["True"]}
    - {key: '.metadata.annotations["bench.test/left-alone"]', operator: DoesNotExist}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range NodeConditions }}
      - lastHeartbeatTime: {{ $now | Quote }}
        lastTransitionTime: {{ $now | Quote }}
        message: {{ .message | Quote }}
        reason: {{ .reason | Quote }}
        status: {{ .status | Quote }}
        type: {{ .type  | Quote}}
      {{ end }}
      addresses:
      - {address: {{ NodeIP | Quote }}, type: InternalIP}
      - {address: {{ NodeName | Quote }}, type: Hostname}
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-complete-when-asked}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.metadata.annotations["bench.test/ends-after"]', operator: Exists}
  delay:
    durationMilliseconds: 1000
    durationFrom: {expressionFrom: '.metadata.annotations["bench.test/ends-after"]'}
  next:
    statusTemplate: |
      {{ $now := Now }}
      containerStatuses:
      {{ range .spec.containers }}
      - image: {{ .image | Quote }}
        name: {{ .name | Quote }}
        ready: false
        restartCount: 0
        started: false
        state: {terminated: {exitCode: 0, reason: Completed, finishedAt: {{ $now | Quote }}, startedAt: {{ $now | Quote }}}}
      {{ end }}
      phase: Succeeded
"#;

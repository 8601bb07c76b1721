//! What it costs to read a large cluster, beside the typed list of `kube` of the same nodes. Run with
//! `cargo bench --bench cluster`.
//!
//! The server is a function in this process, so that only the client's side is measured: reading, decoding, keeping.
//! Like the real one it writes JSON, or its own format for who asks for it. Processor time and the most memory that was
//! held at once; the fastest of several rounds, in turns, so that a busy moment of the machine hits all alike.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "cluster/encoded.rs"]
mod encoded;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use cpu_time::ProcessTime;
use http::{Request, Response};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::client::Body;
use serde_json::{Value, json};
use tidewright::effect::Subject;
use tidewright::provider::Cluster;
use tidewright::provider::k8s::K8s;

const NODES: usize = 10_000;
const PAGE: usize = 500;
const ROUNDS: usize = 3;
/// The promise: at most this share of what the typed list costs.
const MOST_TIME: f64 = 0.2;
const MOST_MEMORY: f64 = 0.1;

/// What a list takes.
struct Cost {
    time: Duration,
    peak_mib: f64,
}

fn main() {
    let pages = Arc::new(Pages::new());
    let size = pages.whole.len();
    println!("{NODES} nodes of {:.1} KiB, {:.0} MiB", size as f64 / NODES as f64 / 1024.0, mib(size as u64));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // A client has a task of its own from the moment that it is made.
    let _inside = runtime.enter();
    let reads: [(&str, &dyn Fn() -> usize); 4] = [
        ("typed", &|| runtime.block_on(typed(client(&pages, false)))),
        ("typed, paged", &|| runtime.block_on(paged(client(&pages, false)))),
        ("ours, of JSON", &|| runtime.block_on(ours(client(&pages, false)))),
        ("ours", &|| runtime.block_on(ours(client(&pages, true)))),
    ];
    let mut costs = reads.map(|_| Cost { time: Duration::MAX, peak_mib: f64::MAX });
    for _ in 0..ROUNDS {
        for (cost, (_, read)) in costs.iter_mut().zip(&reads) {
            cost.take(read);
        }
    }
    for (cost, (what, _)) in costs.iter().zip(&reads) {
        println!("{what:>13}: {:>8.0} ms {:>8.1} MiB", cost.time.as_secs_f64() * 1e3, cost.peak_mib);
    }
    let [typed, .., ours] = &costs;
    let time = ours.time.as_secs_f64() / typed.time.as_secs_f64();
    let memory = ours.peak_mib / typed.peak_mib;
    println!("ours / typed: time {time:.3}, memory {memory:.3}");
    if time > MOST_TIME || memory > MOST_MEMORY {
        println!("broken: at most {MOST_TIME} of the time and {MOST_MEMORY} of the memory were promised");
        std::process::exit(1);
    }
}

impl Cost {
    /// One round more; the cheapest counts.
    fn take(&mut self, read: &dyn Fn() -> usize) {
        let mut time = Duration::ZERO;
        let counted = measure(|| {
            let start = ProcessTime::now();
            assert_eq!(read(), NODES);
            time = start.elapsed();
        });
        *self = Cost { time: self.time.min(time), peak_mib: self.peak_mib.min(mib(counted.bytes_max)) };
    }
}

async fn typed(client: kube::Client) -> usize {
    Api::<Node>::all(client).list(&ListParams::default()).await.expect("a list").items.len()
}

async fn paged(client: kube::Client) -> usize {
    let nodes = Api::<Node>::all(client);
    let (mut all, mut next) = (Vec::new(), Some(String::new()));
    while let Some(token) = next.take() {
        let params = ListParams::default().limit(PAGE as u32);
        let params = if token.is_empty() { params } else { params.continue_token(&token) };
        let page = nodes.list(&params).await.expect("a page");
        next = page.metadata.continue_.filter(|token| !token.is_empty());
        all.extend(page.items);
    }
    all.len()
}

async fn ours(client: kube::Client) -> usize {
    let cluster = K8s::with(client, &"bench".into());
    // Every node is asked for, so all of them are listed, with all of their labels.
    let asked: Vec<Subject> = (0..NODES).map(|index| Subject::Node(name(index).into())).collect();
    let seen = cluster.reread(&asked).await;
    assert!(seen.nodes.gap().is_none(), "{:?}", seen.nodes.gap());
    let nodes = seen.nodes.seen();
    let last = &nodes[name(NODES - 1).as_str()];
    assert_eq!((last.labels.len(), last.conditions.len(), last.allocatable["nvidia.com/gpu"]), (96, 5, 8));
    nodes.len()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A client whose server answers from memory: nodes in pages or all at once, of everything else nothing. `both`: it has
/// its own format beside JSON, as the real one.
fn client(pages: &Arc<Pages>, both: bool) -> kube::Client {
    let pages = Arc::clone(pages);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer(&pages, both, &request);
        async move { Ok::<_, Infallible>(Response::new(Body::from(answer))) }
    });
    kube::Client::new(service, "default")
}

fn answer(pages: &Pages, both: bool, request: &Request<Body>) -> Bytes {
    let query = request.uri().query().unwrap_or_default();
    let asked: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    if request.uri().path() != "/api/v1/nodes" {
        return Bytes::from_static(b"{\"metadata\": {}, \"items\": []}");
    }
    if !asked.contains_key("limit") {
        return pages.whole.clone();
    }
    let at: usize = asked.get("continue").and_then(|token| token.parse().ok()).unwrap_or(0);
    let accepts = request.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let encoded = both && accepts.starts_with("application/vnd.kubernetes.protobuf");
    if encoded { pages.encoded[at].clone() } else { pages.json[at].clone() }
}

/// A list in pages of either format, and in one piece.
struct Pages {
    json: Vec<Bytes>,
    encoded: Vec<Bytes>,
    whole: Bytes,
}

impl Pages {
    fn new() -> Pages {
        let list = |items: &[String], next: &str| {
            let meta = json!({"resourceVersion": "1", "continue": next});
            let items = items.join(",");
            let head = format!("\"apiVersion\":\"v1\",\"kind\":\"NodeList\",\"metadata\":{meta}");
            Bytes::from(format!("{{{head},\"items\":[{items}]}}"))
        };
        let (mut json, mut encoded, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..NODES.div_ceil(PAGE) {
            let nodes: Vec<Value> = (at * PAGE..NODES.min((at + 1) * PAGE)).map(node).collect();
            let next = if (at + 1) * PAGE < NODES { (at + 1).to_string() } else { String::new() };
            let texts: Vec<String> = nodes.iter().map(Value::to_string).collect();
            encoded.push(encoded::list(&nodes, &next));
            json.push(list(&texts, &next));
            all.extend(texts);
        }
        Pages { json, encoded, whole: list(&all, "") }
    }
}

fn name(index: usize) -> String {
    format!("ip-10-{}-{}-{}.us-west-2.compute.internal", index / 62_500, index / 250 % 250, index % 250)
}

/// A GPU node as it looks after a week: features, images, annotations, and who wrote which field.
fn node(index: usize) -> Value {
    let name = name(index);
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", name.clone()),
        ("kubernetes.io/arch", "amd64".into()),
        ("kubernetes.io/os", "linux".into()),
        ("node.kubernetes.io/instance-type", "p5.48xlarge".into()),
        ("topology.kubernetes.io/region", "us-west-2".into()),
        ("topology.kubernetes.io/zone", "us-west-2a".into()),
        ("topology.k8s.aws/network-node-layer-1", format!("nn-{:017x}", index / 512)),
        ("topology.k8s.aws/network-node-layer-2", format!("nn-{:017x}", index / 128)),
        ("topology.k8s.aws/network-node-layer-3", format!("nn-{:017x}", index / 16)),
        ("tidewright.dev/pool", "train".into()),
        ("tidewright.dev/slot", index.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    for part in ["product", "count", "memory", "family", "machine", "replicas", "compute.major", "compute.minor"] {
        labels.insert(format!("nvidia.com/gpu.{part}"), "NVIDIA-H100-80GB-HBM3".into());
    }
    for part in ["device-plugin", "dcgm", "dcgm-exporter", "driver", "gpu-feature-discovery", "mig-manager", "nvsm"] {
        labels.insert(format!("nvidia.com/gpu.deploy.{part}"), "true".into());
    }
    for flag in 0..70 {
        labels.insert(format!("feature.node.kubernetes.io/cpu-cpuid.FEATURE{flag:02}"), "true".into());
    }
    let fields: BTreeMap<String, Value> = labels.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    let managed = |manager: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-09-01T08:12:44Z",
               "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": fields}}})
    };
    let digest = format!("{index:064x}");
    let images: Vec<Value> = (0..50)
        .map(|image| {
            let repository = format!("012345678901.dkr.ecr.us-west-2.amazonaws.com/team-{image}/training-runtime");
            json!({"names": [format!("{repository}@sha256:{digest}"), format!("{repository}:2026.09.{image}")],
                   "sizeBytes": 10_234_567_890_u64 + image})
        })
        .collect();
    let conditions: Vec<Value> = [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "GpuMemWatch",
        "GpuNvlinkWatch",
        "Ready",
    ]
    .iter()
    .map(|kind| {
        json!({"type": kind, "status": if *kind == "Ready" { "True" } else { "False" }, "reason": "KubeletHasEnough",
                   "message": "the kubelet has enough of it", "lastHeartbeatTime": "2026-09-03T10:01:00Z",
                   "lastTransitionTime": "2026-09-01T08:12:40Z"})
    })
    .collect();
    let resources = json!({"cpu": "191450m", "memory": "2104120868Ki", "nvidia.com/gpu": "8", "pods": "100",
                           "vpc.amazonaws.com/efa": "32", "ephemeral-storage": "483258708166", "hugepages-1Gi": "0"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("5b8f2a4e-9a55-4a7e-a6c3-{index:012x}"), "resourceVersion": "4812345",
            "creationTimestamp": "2026-09-01T08:12:44Z", "labels": labels,
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": "{\"ebs.csi.aws.com\":\"i-0abc12def34567890\"}",
                "nfd.node.kubernetes.io/feature-labels": fields.keys().map(|key| &key[2..]).collect::<Vec<_>>().join(","),
                "node.alpha.kubernetes.io/ttl": "0",
            },
            "managedFields": [managed("nfd-master"), managed("gpu-operator"), managed("kubelet")],
        },
        "spec": {"providerID": format!("aws:///us-west-2a/i-{index:017x}"), "podCIDR": "10.1.2.0/24",
                 "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources, "conditions": conditions, "images": images,
                   "addresses": [{"type": "InternalIP", "address": "10.0.12.7"}],
                   "nodeInfo": {"kernelVersion": "6.1.109", "kubeletVersion": "v1.36.2", "machineID": digest,
                                "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "c",
                                "kubeProxyVersion": "", "operatingSystem": "linux", "osImage": "AL2023",
                                "systemUUID": "s"}},
    })
}

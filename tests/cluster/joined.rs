//! `tidewright sim serve --join`: the instances of a served EC2 as nodes of a real cluster, which KWOK keeps alive; and the whole
//! cloud on a laptop that the README makes of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

#[cfg(feature = "aws")]
use super::super::controlplane::{Controlplane, Settings};
use super::super::controlplane::{eventually, plane};

/// A served world; it ends with the test.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(what: &[&str], kubeconfig: &Path) -> Self {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("tidewright"))
            .args(["sim", "serve"])
            .args(what)
            .arg("--join")
            .arg(kubeconfig)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        std::thread::spawn(move || said.lines().count());
        let address = line.trim().rsplit("http://").next().unwrap().to_string();
        Self { process, address }
    }

    /// What is answered to a form, or to an order.
    fn post(&self, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: ec2\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{body}: {answer}");
        answer
    }

    fn ask(&self, form: &str) -> String {
        self.post("/", &format!("Version=2016-11-15&{form}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

#[test]
fn an_instance_that_boots_is_a_node_until_it_is_gone() {
    let Some(plane) = plane::beside() else { return };
    let served = Served::start(&["--in-memory", "--ec2", "127.0.0.1:0", "--speed", "0"], &plane.kubeconfig);
    let flags = "--node-labels=team=joined --register-with-taints=nvidia.com/gpu=present:NoSchedule";
    let data = data_encoding::BASE64.encode(flags.as_bytes()).replace('+', "%2B").replace('=', "%3D");
    let answer = served.ask(&format!(
        "Action=RunInstances&ImageId=ami-12345678&InstanceType=p5.48xlarge&MinCount=1&MaxCount=1\
         &Placement.AvailabilityZone=us-west-2a&UserData={data}"
    ));
    let id = answer.split("<instanceId>").nth(1).unwrap().split('<').next().unwrap().to_string();
    let nodes = || plane.api.list("/api/v1/nodes?labelSelector=team%3Djoined");
    assert!(nodes().is_empty(), "a machine that has not booted is no node");
    served.post("/_tidewright/advance", "3m");
    let node = eventually("its node is ready", 30, || nodes().into_iter().find(is_ready));
    assert_eq!(node["spec"]["providerID"], format!("aws:///us-west-2a/{id}"));
    assert_eq!(node["spec"]["taints"][0]["key"], "nvidia.com/gpu", "{node}");
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8", "{node}");
    assert_eq!(node["metadata"]["labels"]["node.kubernetes.io/instance-type"], "p5.48xlarge");
    served.ask(&format!("Action=TerminateInstances&InstanceId.1={id}"));
    served.post("/_tidewright/advance", "10m");
    eventually("its node is gone", 30, || nodes().is_empty().then_some(()));
}

/// What the README shows, on a cluster of its own: the demo's documents, with another port and nothing else changed.
#[cfg(feature = "aws")]
struct Laptop {
    plane: plane::Own,
    folder: tempfile::TempDir,
    served: Served,
}

#[cfg(feature = "aws")]
impl Laptop {
    fn start() -> Option<Self> {
        let plane = Controlplane::start(Settings::default())?;
        let folder = tempfile::tempdir().unwrap();
        // The README's context has the name that the demo asks for.
        let config = std::fs::read_to_string(&plane.kubeconfig).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["contexts"][0]["name"] = "aws-demo".into();
        config["current-context"] = "aws-demo".into();
        std::fs::write(folder.path().join("config"), config.to_string()).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("clusters/aws-demo");
        std::fs::create_dir(folder.path().join("aws-demo")).unwrap();
        for name in ["fleet.yaml", "serving.yaml", "teams.yaml", "training.yaml"] {
            let text = std::fs::read_to_string(demo.join(name)).unwrap();
            let text = text.replace("127.0.0.1:8520", &format!("127.0.0.1:{port}"));
            std::fs::write(folder.path().join("aws-demo").join(name), text).unwrap();
        }
        let (fleet, address) = (folder.path().join("aws-demo"), format!("127.0.0.1:{port}"));
        let what = [fleet.to_str().unwrap(), "--ec2", address.as_str(), "--speed", "60"];
        let served = Served::start(&what, &folder.path().join("config"));
        Some(Self { plane, folder, served })
    }

    /// What a verb says about the fleet, and whether it ended well.
    fn says(&self, verb: &str, more: &[&str]) -> (bool, String) {
        let ran = Command::new(assert_cmd::cargo::cargo_bin!("tidewright"))
            .arg(verb)
            .arg("aws-demo")
            .args(more)
            .current_dir(self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("config"))
            .env("AWS_ACCESS_KEY_ID", "any")
            .env("AWS_SECRET_ACCESS_KEY", "any")
            .output()
            .unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.success(), String::from_utf8(said).unwrap())
    }

    fn applies(&self) {
        let (well, said) = self.says("apply", &["--yes", "--until-converged"]);
        assert!(well && said.contains("Fleet aws-demo is as git says."), "{said}");
        let (well, said) = self.says("plan", &[]);
        assert!(well, "after it has converged nothing is left: {said}");
        let (well, said) = self.says("status", &[]);
        assert!(well, "{said}");
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.folder.path().join("aws-demo").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from} in {file}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }

    fn nodes(&self, pool: &str) -> Vec<Value> {
        self.plane.api.list(&format!("/api/v1/nodes?labelSelector=tidewright.dev%2Fpool%3D{pool}"))
    }

    /// Each pool has so many nodes, and all of them serve.
    fn serve(&self, wanted: &[(&str, usize, &str)]) {
        for (pool, count, gpus) in wanted {
            let nodes = self.nodes(pool);
            assert_eq!(nodes.len(), *count, "{pool}");
            for node in &nodes {
                assert!(is_ready(node), "{node}");
                assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], *gpus, "{node}");
                let taints = node["spec"]["taints"].as_array().into_iter().flatten();
                let taints: Vec<&str> = taints.filter_map(|taint| taint["key"].as_str()).collect();
                assert_eq!(taints, ["nvidia.com/gpu"], "{node}");
                let zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap();
                assert!(
                    node["spec"]["providerID"].as_str().unwrap().starts_with(&format!("aws:///{zone}/i-")),
                    "{node}"
                );
            }
        }
    }
}

#[cfg(feature = "aws")]
#[test]
fn the_readmes_gpu_cloud_on_a_laptop_converges_and_its_nodes_go_with_their_instances() {
    let Some(laptop) = Laptop::start() else { return };
    laptop.applies();
    laptop.serve(&[("train", 5, "8"), ("serve", 2, "4")]);

    // The machine of one dies, and with it its node; another one comes in its place.
    let dead = laptop.nodes("serve").remove(0);
    let id = dead["spec"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_string();
    laptop.served.post("/_tidewright/kill", &id);
    eventually("its node is gone", 60, || {
        let names: Vec<Value> = laptop.nodes("serve").iter().map(|node| node["metadata"]["name"].clone()).collect();
        (!names.contains(&dead["metadata"]["name"])).then_some(())
    });
    laptop.applies();
    laptop.serve(&[("train", 5, "8"), ("serve", 2, "4")]);

    // One fewer is asked for, which is much of so small a fleet: a node goes with its machine, and takes no other along.
    laptop.edit("fleet.yaml", "nodesRemovedPerHour: 2", "nodesRemovedPerHour: 2\n    desiredShrinkPercent: 20");
    laptop.edit("training.yaml", "  nodes: 5\n", "  nodes: 4\n");
    laptop.edit("teams.yaml", "guarantee: {gpus: 40}", "guarantee: {gpus: 32}");
    laptop.applies();
    eventually("its node is gone", 60, || (laptop.nodes("train").len() == 4).then_some(()));
    laptop.serve(&[("train", 4, "8"), ("serve", 2, "4")]);
}

//! `tidewright sim serve --join`: the instances of a served EC2 as nodes of a real cluster, which KWOK keeps alive.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::super::controlplane::{eventually, plane};

/// A served world; it ends with the test.
struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(kubeconfig: &Path) -> Self {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin!("tidewright"))
            .args(["sim", "serve", "--in-memory", "--ec2", "127.0.0.1:0", "--speed", "0", "--join"])
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

#[test]
fn an_instance_that_boots_is_a_node_until_it_is_gone() {
    let Some(plane) = plane::beside() else { return };
    let served = Served::start(&plane.kubeconfig);
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
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let node = eventually("its node is ready", 30, || nodes().into_iter().find(ready));
    assert_eq!(node["spec"]["providerID"], format!("aws:///us-west-2a/{id}"));
    assert_eq!(node["spec"]["taints"][0]["key"], "nvidia.com/gpu", "{node}");
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "8", "{node}");
    assert_eq!(node["metadata"]["labels"]["node.kubernetes.io/instance-type"], "p5.48xlarge");
    served.ask(&format!("Action=TerminateInstances&InstanceId.1={id}"));
    served.post("/_tidewright/advance", "10m");
    eventually("its node is gone", 30, || nodes().is_empty().then_some(()));
}

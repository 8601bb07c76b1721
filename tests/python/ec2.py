"""Drives every action of the simulated EC2 with boto3, and holds every answer against botocore's own model.

Nobody here wrote boto3, so what it sends and what it can read are EC2's. It passes over what it does not know, though, so
each answer's XML is also walked beside the model: every element must be a member there, of the right kind, and once. And
each parameter that the model knows is sent alone: it must do something (`SUPPORTED`) or be refused by its name.

Usage: ec2.py PROGRAM    (the built tidewright)
"""

import base64
import contextlib
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta

import boto3
import botocore
import botocore.exceptions
from botocore.config import Config

from ec2_model import ACTIONS, API_VERSION

IMAGE = "ami-0123456789abcdef0"
TYPE = "p5.48xlarge"
ZONE = "us-west-2a"
NAMESPACE = f"{{http://ec2.amazonaws.com/doc/{API_VERSION}/}}"

seen = {}
"""The members that each action was seen to answer with, by dotted path."""


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


class Server:
    """A served world, and clients for it."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen(
            [program, "sim", "serve", "--in-memory", "--ec2", "127.0.0.1:0", "--speed", "0", *arguments],
            stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        address = re.search(r"http://\S+", line)
        if address is None:
            self.stop()
            raise Failed(f"the server said {line!r}")
        self.url = address[0]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.ec2, self.sts, self.ssm, self.sqs = (self.client(name) for name in ("ec2", "sts", "ssm", "sqs"))
        self.ec2.meta.events.register("before-parse.ec2", record)

    def client(self, name, region="us-west-2", **config):
        config = Config(retries={"total_max_attempts": 1}, read_timeout=5, **config)
        return boto3.client(name, region_name=region, endpoint_url=self.url, aws_access_key_id="any",
                            aws_secret_access_key="any", config=config)

    def order(self, name, body=""):
        with urllib.request.urlopen(f"{self.url}/_tidewright/{name}", data=body.encode()) as answer:
            return json.load(answer)

    def raw(self, action, parameters):
        """A request that no client checks: its status, and its code and message where it failed."""
        form = urllib.parse.urlencode({"Action": action, "Version": API_VERSION, **parameters})
        try:
            with urllib.request.urlopen(self.url, data=form.encode()) as answer:
                return answer.status, "", answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            code, message = (re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("Code", "Message"))
            return error.code, code and code[1], message and message[1]

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def record(operation_model, response_dict, **_):
    """Walks an answer beside the model before botocore reads it."""
    if response_dict["status_code"] >= 300:
        error = ElementTree.fromstring(response_dict["body"])
        tags = [element.tag for element in error.iter()]
        check(tags == ["Response", "Errors", "Error", "Code", "Message", "RequestID"], f"an error is told as {tags}")
        return
    if response_dict["body"].startswith(b"<html>"):
        return  # An order of ours: the answer is somebody else's.
    name = operation_model.name
    root = ElementTree.fromstring(response_dict["body"])
    check(root.tag == f"{NAMESPACE}{name}Response", f"{name} answers with {root.tag}")
    children = list(root)
    check(children and children[0].tag == f"{NAMESPACE}requestId", f"{name} has no requestId first")
    found = seen.setdefault(name, set())
    shape = operation_model.output_shape
    if shape is None:
        check([child.tag for child in children[1:]] == [f"{NAMESPACE}return"], f"{name} should answer return alone")
        return
    walk_members(shape, children[1:], "", found, name)


def walk_members(shape, elements, path, found, action):
    known = {member.serialization.get("name", name): (name, member) for name, member in shape.members.items()}
    told = set()
    for element in elements:
        tag = element.tag.removeprefix(NAMESPACE)
        check(tag in known, f"{action}: {path}{tag} is no member of {shape.name}")
        check(tag not in told, f"{action}: {path}{tag} is told twice")
        told.add(tag)
        name, member = known[tag]
        found.add(path + name)
        walk(member, element, f"{path}{name}", found, action)


def walk(shape, element, path, found, action):
    if shape.type_name == "structure":
        walk_members(shape, list(element), path + ".", found, action)
        return
    if shape.type_name == "list":
        wanted = shape.member.serialization.get("name", "member")
        for item in element:
            check(item.tag == NAMESPACE + wanted, f"{action}: {path} holds {item.tag}, not {wanted}")
            walk(shape.member, item, path, found, action)
        return
    text = element.text or ""
    check(len(element) == 0, f"{action}: {path} is a {shape.type_name}, and holds elements")
    patterns = {"integer": r"-?\d+", "long": r"-?\d+", "boolean": "true|false", "double": r"-?\d+(\.\d+)?",
                "float": r"-?\d+(\.\d+)?", "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"}
    pattern = patterns.get(shape.type_name, r"(?s).*")
    check(re.fullmatch(pattern, text), f"{action}: {path} is no {shape.type_name}: {text!r}")
    enum = getattr(shape, "enum", None)
    # Types that are newer than botocore's list are told all the same.
    check(not enum or text in enum or path.endswith("InstanceType"), f"{action}: {path} is {text!r}, which is none of {enum}")


def refused(code, call, **parameters):
    try:
        call(**parameters)
    except botocore.exceptions.ClientError as error:
        told = error.response["Error"]["Code"]
        check(told == code, f"expected {code}, was told {error}")
        return error.response
    raise Failed(f"expected {code}, and it was done")


def tags(kind, **pairs):
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in pairs.items()]}]


def launch(server, count=1, **parameters):
    wanted = {"ImageId": IMAGE, "InstanceType": TYPE, "MinCount": count, "MaxCount": count,
              "Placement": {"AvailabilityZone": ZONE}, **parameters}
    return server.ec2.run_instances(**wanted)["Instances"]


def reserve(server, count=1, **parameters):
    wanted = {"InstanceType": TYPE, "InstancePlatform": "Linux/UNIX", "InstanceCount": count,
              "AvailabilityZone": ZONE, **parameters}
    return server.ec2.create_capacity_reservation(**wanted)["CapacityReservation"]


def ids(instances):
    return [instance["InstanceId"] for instance in instances]


def instance(server, wanted):
    return server.ec2.describe_instances(InstanceIds=[wanted])["Reservations"][0]["Instances"][0]


def now(server):
    return datetime.fromisoformat(server.order("state")["now"].replace("Z", "+00:00"))


# Each of the following is one story. They share a world, so each looks only at what it made.


def test_who_calls_and_which_image_a_parameter_names(server):
    check(server.sts.get_caller_identity()["Account"] == "111122223333", "another account")
    name = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    parameter = server.ssm.get_parameter(Name=name)["Parameter"]
    check(parameter["Value"].startswith("ami-"), parameter)
    check(server.ssm.get_parameter(Name=f"{name}:2")["Parameter"]["Value"] != parameter["Value"], "versions are one")
    refused("ParameterNotFound", server.ssm.get_parameter, Name="/mine")
    cluster = server.client("eks").describe_cluster(name="ml")["cluster"]
    check(cluster["status"] == "ACTIVE" and cluster["endpoint"].startswith("https://"), cluster)
    image = server.ec2.describe_images(ImageIds=[parameter["Value"]])["Images"][0]
    check(image["State"] == "available", image)
    refused("InvalidAMIID.NotFound", server.ec2.describe_images, ImageIds=["ami-00000000000000000"])


def test_what_is_signed_for_another_region_is_refused_by_every_service(server):
    far = {name: server.client(name, region="eu-west-1") for name in ("ssm", "sqs", "eks", "sts", "ec2")}
    refused("InvalidSignatureException", far["ssm"].get_parameter, Name="/aws/service/any")
    refused("InvalidSignatureException", far["sqs"].receive_message, QueueUrl=f"{server.url}/111122223333/notices")
    refused("InvalidSignatureException", far["eks"].describe_cluster, name="ml")
    refused("AuthFailure", far["sts"].get_caller_identity)
    refused("AuthFailure", far["ec2"].describe_instances)


def test_what_a_denial_means_is_told_to_whoever_asks(server):
    for needed, action, kind in [("deny", "ec2:RunInstances", "instance"), ("deny=role", "iam:PassRole", "role"),
                                 ("deny=subnet", "ec2:RunInstances", "subnet"),
                                 ("deny=tags", "ec2:CreateTags", "instance")]:
        server.order("fault", f"{needed} RunInstances")
        said = refused("UnauthorizedOperation", launch, server=server)["Error"]["Message"]
        told = server.sts.decode_authorization_message(EncodedMessage=said.split()[-1])["DecodedMessage"]
        context = json.loads(told)["context"]
        check(context["action"] == action and f":{kind}/" in context["resource"], context)
    refused("InvalidAuthorizationMessageException", server.sts.decode_authorization_message, EncodedMessage="x")


# Of the other services: what a call needs, and what else does something. All other parameters are refused by name.
OTHERS = {
    ("ssm", "GetParameter"): ({"Name": "/aws/service/any"}, {"WithDecryption"}),
    ("sqs", "ReceiveMessage"): ({}, {"QueueUrl", "MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds",
                                     "AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames"}),
    ("sqs", "DeleteMessage"): ({"ReceiptHandle": "x"}, {"QueueUrl"}),
    ("eks", "DescribeCluster"): ({"name": "ml"}, set()),
    ("sts", "GetCallerIdentity"): ({}, set()),
    ("sts", "DecodeAuthorizationMessage"): ({"EncodedMessage": "x"}, set()),
}


def test_the_other_services_understand_a_parameter_or_refuse_it_by_name(server):
    values = {"string": "x", "integer": 1, "boolean": True, "list": ["All"]}
    for (service, name), (base, useful) in OTHERS.items():
        client = server.client(service)
        model = client.meta.service_model.operation_model(name)
        call = getattr(client, botocore.xform_name(name))
        if service == "sqs":
            base = {**base, "QueueUrl": f"{server.url}/111122223333/notices"}
        for member, shape in (model.input_shape.members if model.input_shape else {}).items():
            try:
                call(**{member: values[shape.type_name], **base})
                taken = True
            except botocore.exceptions.ClientError as error:
                taken = error.response["Error"]["Code"] != "UnsupportedParameter"
                check(taken or member in error.response["Error"]["Message"], error)
            check(taken == (member in useful or member in base), f"{service}:{name}: {member}, taken: {taken}")
    eks = server.client("eks")
    for call, arguments in [(eks.delete_cluster, {"name": "ml"}), (eks.list_clusters, {}),
                            (eks.list_nodegroups, {"clusterName": "ml"})]:
        refused("UnsupportedOperationException", call, **arguments)
    refused("InvalidAction", server.sts.get_session_token)
    refused("UnknownOperationException", server.ssm.delete_parameter, Name="/mine")


def test_a_queue_waits_and_tells_what_is_asked_of_a_message(server):
    queue = f"{server.url}/111122223333/notices"
    while messages := server.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            server.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    start = time.monotonic()
    check("Messages" not in server.sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1), "there is one")
    check(time.monotonic() - start > 0.9, "it did not wait")
    server.order("rebalance", ids(launch(server))[0])

    def attributes(**asked):
        message = server.sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0, **asked)["Messages"][0]
        return sorted(message.get("Attributes", {}))

    both = ["ApproximateReceiveCount", "SentTimestamp"]
    check(attributes() == [], "told though nobody asked")
    check(attributes(AttributeNames=["All"]) == both, "not all")
    check(attributes(MessageSystemAttributeNames=["SentTimestamp"]) == ["SentTimestamp"], "not the one")
    refused("InvalidAttributeName", server.sqs.receive_message, QueueUrl=queue, AttributeNames=["SenderId"])
    refused("InvalidParameterValue", server.sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=21)
    last = server.sqs.receive_message(QueueUrl=queue)["Messages"][0]
    server.sqs.delete_message(QueueUrl=queue, ReceiptHandle=last["ReceiptHandle"])


def test_an_instance_lives_and_is_forgotten(server):
    one = launch(server, TagSpecifications=tags("instance", name="<&>\"' ü"), ClientToken="life")[0]
    check(one["State"] == {"Code": 0, "Name": "pending"}, one["State"])
    server.order("advance", "2m")
    told = instance(server, one["InstanceId"])
    check(told["State"]["Name"] == "running", told["State"])
    check(told["Tags"] == [{"Key": "name", "Value": "<&>\"' ü"}], told["Tags"])
    check(told["ClientToken"] == "life" and told["Placement"]["AvailabilityZone"] == ZONE, told)
    ended = server.ec2.terminate_instances(InstanceIds=[one["InstanceId"]])["TerminatingInstances"][0]
    check((ended["PreviousState"]["Name"], ended["CurrentState"]["Name"]) == ("running", "shutting-down"), ended)
    server.ec2.terminate_instances(InstanceIds=[one["InstanceId"]])
    server.order("advance", "10m")
    check(instance(server, one["InstanceId"])["State"]["Name"] == "terminated", "it lives on")
    server.order("advance", "2h")
    refused("InvalidInstanceID.NotFound", server.ec2.describe_instances, InstanceIds=[one["InstanceId"]])


def test_one_bad_id_fails_the_call(server):
    one = ids(launch(server))[0]
    refused("InvalidInstanceID.NotFound", server.ec2.terminate_instances, InstanceIds=[one, "i-0123456789abcdef0"])
    check(instance(server, one)["State"]["Name"] == "pending", "the good one was ended")
    refused("InvalidInstanceID.Malformed", server.ec2.describe_instances, InstanceIds=["i-xyz"])


def test_a_token_launches_once_in_its_zone(server):
    one = ids(launch(server, ClientToken="once"))
    check(ids(launch(server, ClientToken="once")) == one, "a second instance")
    other = ids(launch(server, ClientToken="once", Placement={"AvailabilityZone": "us-west-2b"}))
    check(other != one, "a token holds in another zone")
    wanted = {"ImageId": IMAGE, "InstanceType": "p4d.24xlarge", "MinCount": 1, "MaxCount": 1}
    refused("IdempotentParameterMismatch", server.ec2.run_instances, ClientToken="once",
            Placement={"AvailabilityZone": ZONE}, **wanted)


def test_as_many_as_there_are_or_none(server):
    server.order("capacity", f"g6.48xlarge {ZONE} on-demand 3")
    wanted = {"ImageId": IMAGE, "InstanceType": "g6.48xlarge", "Placement": {"AvailabilityZone": ZONE}}
    answer = refused("InsufficientInstanceCapacity", server.ec2.run_instances, MinCount=4, MaxCount=4, **wanted)
    check(answer["ResponseMetadata"]["HTTPStatusCode"] == 500, answer)
    check(len(server.ec2.run_instances(MinCount=1, MaxCount=5, **wanted)["Instances"]) == 3, "not three")
    refused("InsufficientInstanceCapacity", server.ec2.run_instances, MinCount=1, MaxCount=1, **wanted)
    elsewhere = {**wanted, "Placement": {}}
    found = server.ec2.run_instances(MinCount=1, MaxCount=1, **elsewhere)["Instances"][0]
    check(found["Placement"]["AvailabilityZone"] != ZONE, found["Placement"])


def test_a_reservation_is_used_and_full_and_cancelled(server):
    held = reserve(server, 2, InstanceMatchCriteria="targeted", TagSpecifications=tags("capacity-reservation", a="b"))
    wanted = held["CapacityReservationId"]
    into = {"CapacityReservationTarget": {"CapacityReservationId": wanted}}
    machines = ids(launch(server, 2, CapacityReservationSpecification=into))
    told = server.ec2.describe_capacity_reservations(CapacityReservationIds=[wanted])["CapacityReservations"][0]
    check((told["TotalInstanceCount"], told["AvailableInstanceCount"]) == (2, 0), told)
    check(instance(server, machines[0])["CapacityReservationId"] == wanted, "it is not inside")
    refused("ReservationCapacityExceeded", launch, server=server, CapacityReservationSpecification=into)
    # A place is free only when what was in it is terminated, some minutes later.
    server.order("advance", "2m")
    server.ec2.terminate_instances(InstanceIds=machines[:1])
    refused("ReservationCapacityExceeded", launch, server=server, CapacityReservationSpecification=into)
    server.order("advance", "6m")
    launch(server, CapacityReservationSpecification=into)
    server.ec2.modify_capacity_reservation(CapacityReservationId=wanted, InstanceCount=3)
    server.ec2.modify_capacity_reservation(
        CapacityReservationId=wanted, EndDate=now(server) + timedelta(days=1), EndDateType="limited")
    told = server.ec2.describe_capacity_reservations(Filters=[{"Name": "tag:a", "Values": ["b"]}])
    told = told["CapacityReservations"][0]
    check((told["State"], told["TotalInstanceCount"], told["EndDateType"]) == ("active", 3, "limited"), told)
    check(server.ec2.cancel_capacity_reservation(CapacityReservationId=wanted)["Return"], "not cancelled")
    told = server.ec2.describe_capacity_reservations(CapacityReservationIds=[wanted])["CapacityReservations"][0]
    check(told["State"] == "cancelled", told)
    check("CapacityReservationId" not in instance(server, machines[1]), "it is still inside")
    refused("InvalidCapacityReservationId.NotFound", server.ec2.describe_capacity_reservations,
            CapacityReservationIds=["cr-0123456789abcdef0"])


def test_what_another_account_shares_is_used_and_not_changed(server):
    wanted, owner = "cr-0aaaaaaaaaaaaaaa1", "222233334444"
    server.order("share", f"{wanted} p5.48xlarge {ZONE} 1 {owner}")
    told = server.ec2.describe_capacity_reservations(CapacityReservationIds=[wanted])["CapacityReservations"][0]
    check((told["OwnerId"], told["TotalInstanceCount"], told.get("Tags", [])) == (owner, 1, []), told)
    check(told["CapacityReservationArn"].split(":")[4] == owner, told)
    listed = server.ec2.describe_capacity_reservations(Filters=[{"Name": "owner-id", "Values": [owner]}])
    check([one["CapacityReservationId"] for one in listed["CapacityReservations"]] == [wanted], listed)
    into = {"CapacityReservationTarget": {"CapacityReservationId": wanted}}
    machine = ids(launch(server, CapacityReservationSpecification=into, InstanceType="p5.48xlarge"))[0]
    check(instance(server, machine)["CapacityReservationId"] == wanted, "it is not inside")
    refused("OperationNotPermitted", server.ec2.modify_capacity_reservation, CapacityReservationId=wanted,
            InstanceCount=2)
    refused("OperationNotPermitted", server.ec2.cancel_capacity_reservation, CapacityReservationId=wanted)


def test_a_reservation_has_a_token_and_open_ones_are_a_choice(server):
    one = reserve(server, InstanceType="g6e.48xlarge", ClientToken="hold")
    again = reserve(server, InstanceType="g6e.48xlarge", ClientToken="hold")
    check(one["CapacityReservationId"] == again["CapacityReservationId"], "two reservations")
    refused("IdempotentParameterMismatch", reserve, server=server, count=2, InstanceType="g6e.48xlarge",
            ClientToken="hold")

    def run(preference):
        spec = {"CapacityReservationPreference": preference}
        return launch(server, InstanceType="g6e.48xlarge", CapacityReservationSpecification=spec)[0]

    check("CapacityReservationId" not in run("none"), "none used an open one")
    check(run("open")["CapacityReservationId"] == one["CapacityReservationId"], "open did not use an open one")
    refused("ReservationCapacityExceeded", run, preference="capacity-reservations-only")


def test_a_block_is_offered_bought_used_and_extended(server):
    offers = server.ec2.describe_capacity_block_offerings(
        InstanceType=TYPE, InstanceCount=2, CapacityDurationHours=24, StartDateRange=now(server))
    offer = offers["CapacityBlockOfferings"][0]
    check(re.fullmatch(r"\d+\.\d\d", offer["UpfrontFee"]) and offer["CurrencyCode"] == "USD", offer)
    bought = server.ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX",
        TagSpecifications=tags("capacity-reservation", block="mine"))
    held = bought["CapacityReservation"]
    check((held["State"], held["ReservationType"]) == ("payment-pending", "capacity-block"), held)
    blocks = server.ec2.describe_capacity_blocks(CapacityBlockIds=[held["CapacityBlockId"]])["CapacityBlocks"]
    check(blocks[0]["CapacityReservationIds"] == [held["CapacityReservationId"]], blocks)
    wait = (offer["StartDate"] - now(server)).total_seconds() + 60
    server.order("advance", f"{int(wait)}s")
    wanted = held["CapacityReservationId"]
    inside = {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": wanted}},
              "Placement": {"AvailabilityZone": held["AvailabilityZone"]}}
    machine = launch(server, InstanceMarketOptions={"MarketType": "capacity-block"}, **inside)[0]
    check(machine["InstanceLifecycle"] == "capacity-block", machine)
    check(machine["CapacityBlockId"] == held["CapacityBlockId"], machine)
    refused("InvalidParameterValue", launch, server=server, **inside)
    more = server.ec2.describe_capacity_block_extension_offerings(
        CapacityReservationId=wanted, CapacityBlockExtensionDurationHours=24)["CapacityBlockExtensionOfferings"][0]
    extended = server.ec2.purchase_capacity_block_extension(
        CapacityReservationId=wanted, CapacityBlockExtensionOfferingId=more["CapacityBlockExtensionOfferingId"])
    ends = extended["CapacityBlockExtensions"][0]["CapacityBlockExtensionEndDate"]
    check(ends == offer["EndDate"] + timedelta(days=1), extended)
    told = server.ec2.describe_capacity_reservations(CapacityReservationIds=[wanted])["CapacityReservations"][0]
    check((told["State"], told["EndDate"]) == ("active", ends), told)
    refused("InvalidCapacityReservationState", server.ec2.cancel_capacity_reservation, CapacityReservationId=wanted)
    refused("InvalidCapacityBlockOfferingId.NotFound", server.ec2.purchase_capacity_block,
            CapacityBlockOfferingId="cb-0123456789abcdef0", InstancePlatform="Linux/UNIX")
    # Its machines are taken half an hour before its end, with a warning before.
    server.order("advance", f"{int((ends - now(server)).total_seconds()) - 1500}s")
    check(instance(server, machine["InstanceId"])["State"]["Name"] != "running", "it outlives its block")


def test_a_template_says_what_a_launch_does_not(server):
    data = {
        "ImageId": IMAGE, "InstanceType": TYPE, "UserData": base64.b64encode(b"#!/bin/sh").decode(),
        "IamInstanceProfile": {"Name": "nodes"}, "EbsOptimized": True, "KeyName": "mine",
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "interface", "DeleteOnTermination": True},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa-only"}],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3",
                                 "Iops": 3000, "Throughput": 125, "Encrypted": True, "DeleteOnTermination": True}}],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "Monitoring": {"Enabled": True}, "DisableApiTermination": False,
        "TagSpecifications": tags("instance", of="template"),
    }
    made = server.ec2.create_launch_template(
        LaunchTemplateName="pool-train", LaunchTemplateData=data, ClientToken="lt",
        VersionDescription="first", TagSpecifications=tags("launch-template", a="b"))["LaunchTemplate"]
    again = server.ec2.create_launch_template(
        LaunchTemplateName="pool-train", LaunchTemplateData=data, ClientToken="lt",
        VersionDescription="first", TagSpecifications=tags("launch-template", a="b"))["LaunchTemplate"]
    check(made["LaunchTemplateId"] == again["LaunchTemplateId"], "two templates")
    refused("InvalidLaunchTemplateName.AlreadyExistsException", server.ec2.create_launch_template,
            LaunchTemplateName="pool-train", LaunchTemplateData=data)
    second = server.ec2.create_launch_template_version(
        LaunchTemplateName="pool-train", LaunchTemplateData={**data, "InstanceType": "p4d.24xlarge"})
    check(second["LaunchTemplateVersion"]["VersionNumber"] == 2, second)
    told = server.ec2.describe_launch_template_versions(
        LaunchTemplateId=made["LaunchTemplateId"], Versions=["1"])["LaunchTemplateVersions"][0]
    check(told["LaunchTemplateData"] == data, f"{told['LaunchTemplateData']} is not what was written")
    described = server.ec2.describe_launch_templates(LaunchTemplateNames=["pool-train"])["LaunchTemplates"][0]
    check((described["LatestVersionNumber"], described["DefaultVersionNumber"]) == (2, 1), described)
    subnet = server.ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": [ZONE]}])["Subnets"][0]
    machine = server.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateName": "pool-train", "Version": "$Latest"}, MinCount=1, MaxCount=1,
        SubnetId=subnet["SubnetId"], TagSpecifications=tags("instance", of="request"))["Instances"][0]
    check(machine["InstanceType"] == "p4d.24xlarge" and machine["SubnetId"] == subnet["SubnetId"], machine)
    check(machine["Tags"] == [{"Key": "of", "Value": "request"}], machine["Tags"])
    check([i["InterfaceType"] for i in machine["NetworkInterfaces"]] == ["interface", "efa-only"], machine)
    check(machine["IamInstanceProfile"]["Arn"].endswith("instance-profile/nodes"), machine)
    refused("InvalidLaunchTemplateId.VersionNotFound", server.ec2.run_instances, MinCount=1, MaxCount=1,
            LaunchTemplate={"LaunchTemplateName": "pool-train", "Version": "9"})
    server.ec2.delete_launch_template(LaunchTemplateName="pool-train")
    refused("InvalidLaunchTemplateName.NotFoundException", server.ec2.describe_launch_templates,
            LaunchTemplateNames=["pool-train"])


def test_a_group_keeps_its_machines_together(server):
    made = server.ec2.create_placement_group(
        GroupName="ring", Strategy="cluster", TagSpecifications=tags("placement-group", a="b"))["PlacementGroup"]
    refused("InvalidPlacementGroup.Duplicate", server.ec2.create_placement_group, GroupName="ring", Strategy="cluster")
    told = server.ec2.describe_placement_groups(GroupNames=["ring"])["PlacementGroups"][0]
    check(told["GroupId"] == made["GroupId"] and told["Tags"] == [{"Key": "a", "Value": "b"}], told)
    machines = ids(launch(server, 2, Placement={"AvailabilityZone": ZONE, "GroupName": "ring"}))
    check(instance(server, machines[0])["Placement"]["GroupId"] == made["GroupId"], "in another group")
    refused("InvalidPlacementGroup.InUse", server.ec2.delete_placement_group, GroupName="ring")
    refused("InvalidParameterCombination", launch, server=server,
            Placement={"AvailabilityZone": "us-west-2b", "GroupName": "ring"})
    server.order("advance", "2m")
    places = server.ec2.describe_instance_topology(InstanceIds=machines)["Instances"]
    check(len(places) == 2 and places[0]["NetworkNodes"] == places[1]["NetworkNodes"], places)
    check(len(places[0]["NetworkNodes"]) == 3, places)
    held = reserve(server, 4)
    server.order("advance", "6m")
    place = server.ec2.describe_capacity_reservation_topology(
        CapacityReservationIds=[held["CapacityReservationId"]])["CapacityReservations"][0]
    check(1 <= len(place["NetworkNodes"]) <= 3, place)
    server.ec2.terminate_instances(InstanceIds=machines)
    server.order("advance", "10m")
    server.ec2.delete_placement_group(GroupName="ring")
    refused("InvalidPlacementGroup.Unknown", server.ec2.describe_placement_groups, GroupNames=["ring"])


def test_what_is_protected_is_not_ended(server):
    one, two = ids(launch(server, 2))
    there = ids(launch(server, Placement={"AvailabilityZone": "us-west-2b"}))[0]
    server.ec2.modify_instance_attribute(InstanceId=one, DisableApiTermination={"Value": True})
    refused("OperationNotPermitted", server.ec2.terminate_instances, InstanceIds=[one, two, there])
    states = [instance(server, wanted)["State"]["Name"] for wanted in (one, two, there)]
    check(states == ["pending", "pending", "shutting-down"], states)
    server.ec2.modify_instance_attribute(InstanceId=one, DisableApiTermination={"Value": False})
    server.ec2.terminate_instances(InstanceIds=[one, two])


def test_notices_come_by_status_and_by_queue(server):
    spot, plain = launch(server, InstanceMarketOptions={"MarketType": "spot"})[0]["InstanceId"], ids(launch(server))[0]
    server.order("advance", "2m")
    check(instance(server, spot)["InstanceLifecycle"] == "spot", "not spot")
    queue = f"{server.url}/111122223333/notices"

    def received():
        found = []
        while messages := server.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                found.append(json.loads(message["Body"]))
                server.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return found

    received()
    server.order("rebalance", plain)
    told = [(event["detail-type"], event["detail"]["instance-id"]) for event in received()]
    check(told == [("EC2 Instance Rebalance Recommendation", plain)], told)
    server.order("interrupt", spot)
    server.order("maintenance", f"{plain} 1h")
    told = [(event["detail-type"], event["source"]) for event in received()]
    check(told == [("EC2 Spot Instance Interruption Warning", "aws.ec2"), ("AWS Health Event", "aws.health")], told)
    request = instance(server, spot)["SpotInstanceRequestId"]
    requests = server.ec2.describe_spot_instance_requests(
        Filters=[{"Name": "status-code", "Values": ["marked-for-termination"]}])["SpotInstanceRequests"]
    check([(r["SpotInstanceRequestId"], r["InstanceId"]) for r in requests] == [(request, spot)], requests)
    # Whoever polls counts the two minutes from here.
    marked = requests[0]["Status"]["UpdateTime"]
    check(abs(now(server) - marked) < timedelta(seconds=30), f"marked at {marked}, and it is {now(server)}")
    statuses = server.ec2.describe_instance_status(InstanceIds=[plain])["InstanceStatuses"]
    check(statuses[0]["Events"][0]["Code"] == "instance-retirement", statuses)
    server.order("advance", "3m")
    check(instance(server, spot)["State"]["Name"] == "shutting-down", "it outlives its notice")
    server.ec2.reboot_instances(InstanceIds=[plain])
    # What nobody deletes comes again, after a while and not before.
    first = server.sqs.receive_message(QueueUrl=queue, VisibilityTimeout=60, MaxNumberOfMessages=10)["Messages"]
    ends = [json.loads(message["Body"])["detail"] for message in first]
    check({"instance-id": spot, "state": "shutting-down"} in ends, ends)
    check("Messages" not in server.sqs.receive_message(QueueUrl=queue), "it is shown to two")
    server.order("advance", "61s")
    again = server.sqs.receive_message(QueueUrl=queue)["Messages"][0]
    check(again["MessageId"] == first[0]["MessageId"], again)


def test_what_comes_with_an_instance_carries_its_own_tags(server):
    said = [tags(kind, of=kind)[0] for kind in ("instance", "volume", "network-interface", "spot-instances-request")]
    one = launch(server, TagSpecifications=said, InstanceMarketOptions={"MarketType": "spot"},
                 BlockDeviceMappings=[{"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 10}}])[0]
    told = instance(server, one["InstanceId"])
    mapped = {device["DeviceName"]: device["Ebs"]["VolumeId"] for device in told["BlockDeviceMappings"]}
    check(sorted(mapped) == ["/dev/xvda", "/dev/xvdb"], mapped)
    request, interface = told["SpotInstanceRequestId"], told["NetworkInterfaces"][0]["NetworkInterfaceId"]
    wanted = {(volume, "volume") for volume in mapped.values()}
    wanted |= {(one["InstanceId"], "instance"), (interface, "network-interface"), (request, "spot-instances-request")}
    found = server.ec2.describe_tags(Filters=[{"Name": "key", "Values": ["of"]},
                                              {"Name": "resource-id", "Values": [thing for thing, _ in wanted]}])["Tags"]
    check({(tag["ResourceId"], tag["ResourceType"]) for tag in found} == wanted, found)
    check(all(tag["Value"] == tag["ResourceType"] for tag in found), found)
    asked = server.ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[request])["SpotInstanceRequests"]
    check(asked[0]["Tags"] == [{"Key": "of", "Value": "spot-instances-request"}], asked)
    server.ec2.create_tags(Resources=[mapped["/dev/xvdb"]], Tags=[{"Key": "more", "Value": "1"}])
    refused("InvalidVolume.NotFound", server.ec2.create_tags, Resources=["vol-0123456789abcdef0"],
            Tags=[{"Key": "a", "Value": "1"}])


def test_tags_are_put_on_and_taken_off(server):
    one = ids(launch(server))[0]
    server.ec2.create_tags(Resources=[one], Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}])
    by_id = [{"Name": "resource-id", "Values": [one]}]
    told = server.ec2.describe_tags(Filters=by_id)["Tags"]
    check([(tag["Key"], tag["Value"], tag["ResourceType"]) for tag in told]
          == [("a", "1", "instance"), ("b", "", "instance")], told)
    server.ec2.delete_tags(Resources=[one], Tags=[{"Key": "a", "Value": "2"}, {"Key": "b"}])
    check([tag["Key"] for tag in server.ec2.describe_tags(Filters=by_id)["Tags"]] == ["a"], "the wrong tag went")
    refused("InvalidInstanceID.NotFound", server.ec2.create_tags, Resources=["i-0123456789abcdef0"],
            Tags=[{"Key": "a", "Value": "1"}])


def test_lists_come_in_pages_and_through_filters(server):
    machines = ids(launch(server, 12, TagSpecifications=tags("instance", page="me")))
    by_tag = [{"Name": "tag:page", "Values": ["m?"]}]
    pages = list(server.ec2.get_paginator("describe_instances").paginate(
        Filters=by_tag, PaginationConfig={"PageSize": 5}))
    told = [i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]]
    check(len(pages) == 3 and sorted(told) == sorted(machines), (len(pages), told))
    none = server.ec2.describe_instances(Filters=[*by_tag, {"Name": "instance-state-name", "Values": ["stopped"]}])
    check(none["Reservations"] == [], none)
    refused("InvalidParameterValue", server.ec2.describe_instances, Filters=[{"Name": "colour", "Values": ["red"]}])
    refused("InvalidParameterCombination", server.ec2.describe_instances, InstanceIds=machines[:1], MaxResults=5)
    refused("InvalidNextToken", server.ec2.describe_instances, NextToken="nonsense", MaxResults=5)
    server.ec2.terminate_instances(InstanceIds=machines)


def test_what_is_for_sale(server):
    kinds = server.ec2.describe_instance_types(InstanceTypes=[TYPE, "p6-b300.48xlarge"])["InstanceTypes"]
    by_name = {kind["InstanceType"]: kind for kind in kinds}
    check(by_name[TYPE]["GpuInfo"]["Gpus"][0]["Count"] == 8, by_name[TYPE])
    check(by_name[TYPE]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32, by_name[TYPE])
    network = by_name["p6-b300.48xlarge"]["NetworkInfo"]
    check((network["MaximumNetworkCards"], network["EfaInfo"]["MaximumEfaInterfaces"]) == (17, 16), network)
    check("efa" not in network["NetworkCards"][0]["InterfaceTypes"], network["NetworkCards"][0])
    refused("InvalidInstanceType", server.ec2.describe_instance_types, InstanceTypes=["p99.large"])
    everything = server.ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 5})
    check(sum(len(page["InstanceTypes"]) for page in everything) > 20, "few types")
    offered = server.ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [TYPE]}])
    check(len(offered["InstanceTypeOfferings"]) == 6, offered)
    prices = server.ec2.describe_spot_price_history(
        InstanceTypes=[TYPE], ProductDescriptions=["Linux/UNIX"], AvailabilityZone=ZONE,
        StartTime=now(server) - timedelta(hours=3))["SpotPriceHistory"]
    check(len(prices) == 4 and float(prices[0]["SpotPrice"]) > 1, prices)
    zones = server.ec2.describe_availability_zones()["AvailabilityZones"]
    check([zone["ZoneId"] for zone in zones][:2] == ["usw2-az1", "usw2-az2"], zones)
    groups = server.ec2.describe_security_groups()["SecurityGroups"]
    check([group["GroupName"] for group in groups if group["GroupName"] == "nodes"], groups)
    check(len(server.ec2.describe_subnets()["Subnets"]) == 6, "not six subnets")


def test_a_dry_run_does_nothing(server):
    before = server.order("state")["changed"]
    parameters = {"ImageId": IMAGE, "InstanceType": TYPE, "MinCount": 1, "MaxCount": 1, "DryRun": True}
    answer = refused("DryRunOperation", server.ec2.run_instances, **parameters)
    check(answer["ResponseMetadata"]["HTTPStatusCode"] == 412, answer)
    refused("DryRunOperation", server.ec2.describe_instances, DryRun=True)
    refused("DryRunOperation", server.ec2.create_capacity_reservation, DryRun=True, InstanceType=TYPE,
            InstancePlatform="Linux/UNIX", InstanceCount=1, AvailabilityZone=ZONE)
    check(server.order("state")["changed"] == before, "something was done")


def test_what_is_wrong_is_told_by_name(server):
    check(server.raw("DescribeNothing", {})[1] == "InvalidAction", "an action that is none")
    check(server.raw("DescribeInstances", {"Colour": "red"})[1:] == (
        "UnknownParameter", "The parameter Colour is not recognized"), "a parameter that is none")
    check(server.raw("DescribeInstances", {"MaxResults": "many"})[1] == "InvalidParameterValue", "no number")
    check(server.raw("RunInstances", {"ImageId": IMAGE, "MinCount": "1"})[1] == "MissingParameter", "nothing missing")


def test_the_weather_behind_the_wire_shows_on_it(server):
    server.order("fail-launches", "no-capacity 1")
    refused("InsufficientInstanceCapacity", launch, server=server)
    server.order("fail-launches", "denied 1")
    refused("UnauthorizedOperation", launch, server=server)
    server.order("lag", "30s 1")
    late = ids(launch(server))[0]
    refused("InvalidInstanceID.NotFound", server.ec2.describe_instances, InstanceIds=[late])
    server.order("advance", "31s")
    instance(server, late)


def test_faults_on_the_wire(server):
    def launched():
        return server.order("state")["changed"].get("launch", 0)

    for fault, adds, error in [
        ("cut-before", 0, botocore.exceptions.ConnectionClosedError),
        ("cut-after", 1, botocore.exceptions.ConnectionClosedError),
        ("500", 0, botocore.exceptions.ClientError),
        ("503", 0, botocore.exceptions.ClientError),
        ("500-after", 1, botocore.exceptions.ClientError),
        ("truncate", 1, (botocore.exceptions.IncompleteReadError, botocore.exceptions.ResponseStreamingError,
                         botocore.exceptions.ConnectionClosedError, botocore.exceptions.HTTPClientError)),
        ("garbage", 1, (botocore.parsers.ResponseParserError, KeyError)),
    ]:
        before = launched()
        server.order("fault", f"{fault} RunInstances")
        try:
            launch(server, ClientToken=f"fault-{fault}")
        except error:
            pass
        else:
            raise Failed(f"{fault} went unnoticed")
        check(launched() == before + adds, f"{fault}: {launched() - before} launches took effect, not {adds}")
        launch(server, ClientToken=f"fault-{fault}")
        check(launched() == before + 1, f"{fault}: the token launched a second")
    server.order("fault", "slow=1.5 DescribeAvailabilityZones")
    start = time.monotonic()
    server.ec2.describe_availability_zones()
    check(time.monotonic() - start > 1.4, "not slow")
    server.order("calm")


def test_requests_are_throttled_and_let_in_again(server):
    for _ in range(5):
        launch(server)
    answer = refused("RequestLimitExceeded", launch, server=server)
    check(answer["ResponseMetadata"]["HTTPStatusCode"] == 503, answer)
    server.order("advance", "1s")
    launch(server)
    server.ec2.describe_instance_topology()
    refused("RequestLimitExceeded", server.ec2.describe_instance_topology)
    server.ec2.describe_instances()


THROTTLED = [test_requests_are_throttled_and_let_in_again]

# What a request needs so that a further parameter is looked at.
BASE = {
    "CancelCapacityReservation": {"CapacityReservationId": "cr-1"},
    "CreateCapacityReservation": {"InstanceType": TYPE, "InstancePlatform": "Linux/UNIX", "InstanceCount": "1",
                                  "AvailabilityZone": ZONE},
    "CreateLaunchTemplate": {"LaunchTemplateName": "any", "LaunchTemplateData.ImageId": IMAGE},
    "CreateLaunchTemplateVersion": {"LaunchTemplateId": "{template}", "LaunchTemplateData.ImageId": IMAGE},
    "CreatePlacementGroup": {"GroupName": "any"},
    "CreateTags": {"ResourceId.1": "i-0123456789abcdef0", "Tag.1.Key": "a"},
    "DeleteLaunchTemplate": {"LaunchTemplateId": "{template}"},
    "DeletePlacementGroup": {"GroupName": "any"},
    "DeleteTags": {"ResourceId.1": "i-0123456789abcdef0"},
    "DescribeCapacityBlockExtensionOfferings": {"CapacityReservationId": "{reservation}",
                                                "CapacityBlockExtensionDurationHours": "24"},
    "DescribeCapacityBlockOfferings": {"CapacityDurationHours": "24", "InstanceType": TYPE},
    "DescribeLaunchTemplateVersions": {"LaunchTemplateId": "{template}"},
    "ModifyCapacityReservation": {"CapacityReservationId": "cr-1"},
    "ModifyInstanceAttribute": {"InstanceId": "i-0123456789abcdef0"},
    "PurchaseCapacityBlock": {"CapacityBlockOfferingId": "cb-1", "InstancePlatform": "Linux/UNIX"},
    "PurchaseCapacityBlockExtension": {"CapacityBlockExtensionOfferingId": "cb-1", "CapacityReservationId": "cr-1"},
    "RebootInstances": {"InstanceId.1": "i-0123456789abcdef0"},
    "RunInstances": {"ImageId": IMAGE, "MinCount": "1", "MaxCount": "1"},
    "TerminateInstances": {"InstanceId.1": "i-0123456789abcdef0"},
}

# Of these only some values are understood.
USEFUL = {"Tenancy": "default", "Placement.Tenancy": "default", "Attribute": "disableApiTermination"}

LAUNCH = """
BlockDeviceMappings.DeviceName BlockDeviceMappings.Ebs.DeleteOnTermination BlockDeviceMappings.Ebs.Encrypted
BlockDeviceMappings.Ebs.Iops BlockDeviceMappings.Ebs.KmsKeyId BlockDeviceMappings.Ebs.SnapshotId
BlockDeviceMappings.Ebs.Throughput BlockDeviceMappings.Ebs.VolumeSize BlockDeviceMappings.Ebs.VolumeType
CapacityReservationSpecification.CapacityReservationPreference
CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId DisableApiTermination EbsOptimized
IamInstanceProfile.Arn IamInstanceProfile.Name ImageId InstanceInitiatedShutdownBehavior
InstanceMarketOptions.MarketType InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior
InstanceMarketOptions.SpotOptions.MaxPrice InstanceMarketOptions.SpotOptions.SpotInstanceType InstanceType KeyName
MetadataOptions.HttpEndpoint MetadataOptions.HttpPutResponseHopLimit MetadataOptions.HttpTokens
MetadataOptions.InstanceMetadataTags Monitoring.Enabled
NetworkInterfaces.DeleteOnTermination NetworkInterfaces.DeviceIndex NetworkInterfaces.Groups
NetworkInterfaces.InterfaceType NetworkInterfaces.NetworkCardIndex
NetworkInterfaces.SubnetId Placement.AvailabilityZone Placement.GroupId Placement.GroupName Placement.Tenancy
SecurityGroupIds TagSpecifications.ResourceType TagSpecifications.Tags.Key TagSpecifications.Tags.Value UserData
""".split()
LISTED = "DryRun Filters.Name Filters.Values MaxResults NextToken".split()
TAGGED = "TagSpecifications.ResourceType TagSpecifications.Tags.Key TagSpecifications.Tags.Value".split()

# Every parameter that does something, by action. All others of the model are refused by name.
SUPPORTED = {
    "CancelCapacityReservation": ["CapacityReservationId", "DryRun"],
    "CreateCapacityReservation": "AvailabilityZone AvailabilityZoneId ClientToken DryRun EbsOptimized EndDate EndDateType"
    " InstanceCount InstanceMatchCriteria InstancePlatform InstanceType PlacementGroupArn Tenancy".split() + TAGGED,
    "CreateLaunchTemplate": ["ClientToken", "DryRun", "LaunchTemplateName", "VersionDescription", *TAGGED]
    + [f"LaunchTemplateData.{name}" for name in LAUNCH],
    "CreateLaunchTemplateVersion": ["ClientToken", "DryRun", "LaunchTemplateId", "LaunchTemplateName",
                                    "VersionDescription"] + [f"LaunchTemplateData.{name}" for name in LAUNCH],
    "CreatePlacementGroup": ["DryRun", "GroupName", "PartitionCount", "Strategy", *TAGGED],
    "CreateTags": ["DryRun", "Resources", "Tags.Key", "Tags.Value"],
    "DeleteLaunchTemplate": ["DryRun", "LaunchTemplateId", "LaunchTemplateName"],
    "DeletePlacementGroup": ["DryRun", "GroupName"],
    "DeleteTags": ["DryRun", "Resources", "Tags.Key", "Tags.Value"],
    "DescribeAvailabilityZones": "AllAvailabilityZones DryRun Filters.Name Filters.Values ZoneIds ZoneNames".split(),
    "DescribeCapacityBlockExtensionOfferings": "CapacityBlockExtensionDurationHours CapacityReservationId DryRun"
    " MaxResults NextToken".split(),
    "DescribeCapacityBlockOfferings": "CapacityDurationHours DryRun EndDateRange InstanceCount InstanceType MaxResults"
    " NextToken StartDateRange".split(),
    "DescribeCapacityBlocks": ["CapacityBlockIds", *LISTED],
    "DescribeCapacityReservationTopology": ["CapacityReservationIds", *LISTED],
    "DescribeCapacityReservations": ["CapacityReservationIds", *LISTED],
    "DescribeImages": ["ImageIds", "IncludeDeprecated", "Owners", *LISTED],
    "DescribeInstanceStatus": ["IncludeAllInstances", "IncludeManagedResources", "InstanceIds", *LISTED],
    "DescribeInstanceTopology": ["GroupNames", "InstanceIds", *LISTED],
    "DescribeInstanceTypeOfferings": ["LocationType", *LISTED],
    "DescribeInstanceTypes": ["InstanceTypes", *LISTED],
    "DescribeInstances": ["IncludeManagedResources", "InstanceIds", *LISTED],
    "DescribeLaunchTemplateVersions": ["IncludeManagedResources", "LaunchTemplateId", "LaunchTemplateName", "Versions",
                                       *LISTED],
    "DescribeLaunchTemplates": ["IncludeManagedResources", "LaunchTemplateIds", "LaunchTemplateNames", *LISTED],
    "DescribePlacementGroups": ["DryRun", "Filters.Name", "Filters.Values", "GroupIds", "GroupNames"],
    "DescribeSecurityGroups": ["GroupIds", "GroupNames", *LISTED],
    "DescribeSpotInstanceRequests": ["SpotInstanceRequestIds", *LISTED],
    "DescribeSpotPriceHistory": "AvailabilityZone EndTime InstanceTypes ProductDescriptions StartTime".split() + LISTED,
    "DescribeSubnets": ["SubnetIds", *LISTED],
    "DescribeTags": LISTED,
    "ModifyCapacityReservation": "CapacityReservationId DryRun EndDate EndDateType InstanceCount InstanceMatchCriteria"
    .split(),
    "ModifyInstanceAttribute": ["Attribute", "DisableApiTermination.Value", "DryRun", "InstanceId", "Value"],
    "PurchaseCapacityBlock": ["CapacityBlockOfferingId", "DryRun", "InstancePlatform", *TAGGED],
    "PurchaseCapacityBlockExtension": ["CapacityBlockExtensionOfferingId", "CapacityReservationId", "DryRun"],
    "RebootInstances": ["DryRun", "InstanceIds"],
    "RunInstances": ["ClientToken", "DryRun", "LaunchTemplate.LaunchTemplateId", "LaunchTemplate.LaunchTemplateName",
                     "LaunchTemplate.Version", "MaxCount", "MinCount", "SubnetId", *LAUNCH],
    "TerminateInstances": ["DryRun", "InstanceIds"],
}


def leaves(shape, name="", wire=""):
    """The scalars of a request: by their member names, and as they are sent."""
    if shape.type_name == "structure":
        for member, held in shape.members.items():
            serialized = held.serialization
            sent = serialized.get("queryName") or serialized.get("name", member)
            sent = sent[0].upper() + sent[1:]
            yield from leaves(held, f"{name}.{member}".lstrip("."), f"{wire}.{sent}".lstrip("."))
    elif shape.type_name == "list":
        yield from leaves(shape.member, name, f"{wire}.1")
    else:
        yield name, wire, shape


def test_every_parameter_does_something_or_is_refused_by_name(server):
    model, problems, count = server.ec2.meta.service_model, [], 0
    template = server.ec2.create_launch_template(LaunchTemplateName="base", LaunchTemplateData={"ImageId": IMAGE})
    names = {"template": template["LaunchTemplate"]["LaunchTemplateId"],
             "reservation": reserve(server)["CapacityReservationId"]}
    values = {"integer": "7", "long": "7", "boolean": "true", "timestamp": "2027-01-01T00:00:00Z", "double": "1"}
    for action in ACTIONS:
        accepted = set()
        for name, wire, shape in leaves(model.operation_model(action).input_shape):
            count += 1
            base = {key: value.format(**names) for key, value in BASE.get(action, {}).items()}
            value = USEFUL.get(name) or values.get(shape.type_name, "x")
            sent = {**base, wire: base.get(wire, value), "DryRun": "true"}
            status, code, message = server.raw(action, sent)
            if code == "UnsupportedParameter":
                words = [word for word in re.split(r"[ ']", message or "") if word]
                plain = {re.sub(r"\.\d+", "", word) for word in words}
                if name not in plain:
                    problems.append(f"{action}: {name} is refused as something else: {message}")
            elif code in ("UnknownParameter", "InternalError") or status < 300:
                problems.append(f"{action}: {name}, sent as {wire}: {status} {code} {message}")
            else:
                accepted.add(name)
        wanted = set(SUPPORTED[action])
        problems += [f"{action}: {name} is taken, and the list does not say so" for name in sorted(accepted - wanted)]
        problems += [f"{action}: {name} is refused, and the list says otherwise" for name in sorted(wanted - accepted)]
    check(count > 600, f"only {count} parameters")
    check(not problems, f"{len(problems)} of {count}:\n  " + "\n  ".join(problems))


# What must have been told of each thing by the end: a member that no answer ever had is missing.
TOLD = {
    "DescribeInstances": "Reservations.ReservationId Reservations.OwnerId Reservations.Instances.InstanceId"
    " Reservations.Instances.InstanceType Reservations.Instances.State.Name Reservations.Instances.State.Code"
    " Reservations.Instances.LaunchTime Reservations.Instances.Placement.AvailabilityZone"
    " Reservations.Instances.Placement.GroupName Reservations.Instances.Placement.GroupId"
    " Reservations.Instances.ClientToken Reservations.Instances.Tags.Key Reservations.Instances.Tags.Value"
    " Reservations.Instances.CapacityReservationId Reservations.Instances.InstanceLifecycle"
    " Reservations.Instances.CapacityBlockId Reservations.Instances.PrivateDnsName"
    " Reservations.Instances.PrivateIpAddress Reservations.Instances.SubnetId Reservations.Instances.VpcId"
    " Reservations.Instances.StateReason.Code NextToken",
    "DescribeInstanceStatus": "InstanceStatuses.InstanceId InstanceStatuses.Events.Code"
    " InstanceStatuses.Events.NotBefore InstanceStatuses.InstanceState.Name InstanceStatuses.InstanceStatus.Status"
    " InstanceStatuses.SystemStatus.Status",
    "DescribeCapacityReservations": "CapacityReservations.CapacityReservationId CapacityReservations.State"
    " CapacityReservations.TotalInstanceCount CapacityReservations.AvailableInstanceCount"
    " CapacityReservations.StartDate CapacityReservations.EndDate CapacityReservations.EndDateType"
    " CapacityReservations.InstanceMatchCriteria CapacityReservations.ReservationType"
    " CapacityReservations.CapacityBlockId CapacityReservations.Tags.Key",
    "DescribeCapacityBlockOfferings": "CapacityBlockOfferings.UpfrontFee CapacityBlockOfferings.CurrencyCode"
    " CapacityBlockOfferings.CapacityBlockDurationHours CapacityBlockOfferings.AvailabilityZone",
    "DescribeLaunchTemplateVersions": "LaunchTemplateVersions.VersionNumber LaunchTemplateVersions.DefaultVersion"
    " LaunchTemplateVersions.VersionDescription LaunchTemplateVersions.LaunchTemplateData.UserData",
    "DescribeInstanceTypes": "InstanceTypes.GpuInfo.Gpus.Name InstanceTypes.GpuInfo.TotalGpuMemoryInMiB"
    " InstanceTypes.NetworkInfo.NetworkCards.NetworkCardIndex InstanceTypes.SupportedUsageClasses NextToken",
    "DescribeInstanceTopology": "Instances.NetworkNodes Instances.ZoneId Instances.GroupName",
    "DescribeCapacityReservationTopology": "CapacityReservations.NetworkNodes CapacityReservations.State",
}


def main(program):
    passed, failed = 0, []
    stories = [(name, story) for name, story in globals().items() if name.startswith("test_")]
    with contextlib.ExitStack() as stack:
        free, narrow = (Server(program, *arguments) for arguments in (["--no-throttle"], []))
        stack.callback(free.stop)
        stack.callback(narrow.stop)
        for name, story in stories:
            try:
                story(narrow if story in THROTTLED else free)
                passed += 1
            except Exception as error:  # Whatever it is, the other stories are told as well.
                failed.append(f"{name}: {type(error).__name__}: {error}")
    never = sorted(set(ACTIONS) - set(seen))
    failed += [f"{action} was never answered" for action in never]
    for action, members in TOLD.items():
        missing = sorted(set(members.split()) - seen.get(action, set()))
        failed += [f"{action} never told {name}" for name in missing]
    print("\n".join(failed))
    print(f"{passed} passed, {len(failed)} failed; {sum(map(len, seen.values()))} members of {len(seen)} actions seen")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

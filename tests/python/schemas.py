"""Holds the published JSON Schemas against the example fleets, with another YAML reader and another validator.

The program reads its language with its own parser; editors, CI services and other tools read it with these schemas.
Both must agree, so every document under examples/ and clusters/ has to

- stand in a file that begins with the editor's schema line, whose path exists;
- be allowed by the schema of its kind and by the schema of any kind;
- be refused by both once it has a field that nobody knows (a schema that allows everything would pass the rest).

Usage: schemas.py [ROOT]
"""

import copy
import json
import re
import sys
from pathlib import Path

import jsonschema
import yaml
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

SCHEMA_LINE = re.compile(r"^# yaml-language-server: \$schema=(\S+)\s*$")


class CoreLoader(yaml.SafeLoader):
    """Reads plain scalars by the core schema of YAML 1.2: no dates, no `yes`, no octal `017`, no `1_000`, no `<<`."""

    yaml_implicit_resolvers = {}

    def construct_core_int(self, node):
        text = self.construct_scalar(node)
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)

    def construct_core_float(self, node):
        return float(re.sub(r"\.(inf|nan)$", r"\1", self.construct_scalar(node).lower()))

    def construct_core_bool(self, node):
        return self.construct_scalar(node).lower() == "true"

    def construct_core_map(self, node):
        result = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, "a key that is not text", key_node.start_mark)
            if key in result:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} twice", key_node.start_mark)
            result[key] = self.construct_object(value_node, deep=True)
        return result


for tag, pattern in {
    "null": r"^(?:null|Null|NULL|~|)$",
    "bool": r"^(?:true|True|TRUE|false|False|FALSE)$",
    "int": r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$",
    "float": r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
}.items():
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), None)
CoreLoader.add_constructor("tag:yaml.org,2002:int", CoreLoader.construct_core_int)
CoreLoader.add_constructor("tag:yaml.org,2002:float", CoreLoader.construct_core_float)
CoreLoader.add_constructor("tag:yaml.org,2002:bool", CoreLoader.construct_core_bool)
CoreLoader.add_constructor("tag:yaml.org,2002:map", CoreLoader.construct_core_map)


def load_schemas(directory):
    """Validators by file name; schemas may refer to each other by `$id` or by file name."""
    registry, addresses = Registry(), {}
    for path in sorted(directory.glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        resource = Resource(contents=schema, specification=DRAFT7)
        addresses[path.name] = schema.get("$id", path.as_uri())
        for address in {addresses[path.name], path.as_uri()}:
            registry = registry.with_resource(address, resource)
    return {
        name: jsonschema.Draft7Validator({"$ref": address}, registry=registry) for name, address in addresses.items()
    }


def check_schema_lines(path, text):
    """Editors look for the line in each document of a file, so each begins with it."""
    for number, document in enumerate(re.split(r"^---\n", text, flags=re.MULTILINE), 1):
        match = SCHEMA_LINE.match(document.split("\n", 1)[0])
        if match is None:
            yield f"document {number} does not begin with `# yaml-language-server: $schema=PATH`"
        elif not (path.parent / match[1]).is_file():
            yield f"the schema line of document {number} names {match[1]}, which does not exist"


def check_document(document, validators):
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        yield "not a document with a kind"
        return
    for name in (f"{document['kind'].lower()}.schema.json", "any.schema.json"):
        if name not in validators:
            yield f"there is no schema {name}"
            continue
        for error in sorted(validators[name].iter_errors(document), key=lambda error: error.json_path):
            yield f"{name}: {error.json_path}: {error.message[:300]}"
        spoilt = copy.deepcopy(document)
        if isinstance(spoilt.get("spec"), dict):
            spoilt["spec"]["noSuchField"] = 1
            if validators[name].is_valid(spoilt):
                yield f"{name} allows a field in spec that nobody knows"


def main(root):
    validators = load_schemas(root / "schemas" / "json")
    passed = failed = 0
    for path in sorted(p for top in ("examples", "clusters") for p in (root / top).rglob("*.y*ml") if p.is_file()):
        name = path.relative_to(root)
        text = path.read_text(encoding="utf-8")
        problems = list(check_schema_lines(path, text))
        try:
            documents = [document for document in yaml.load_all(text, CoreLoader) if document is not None]
        except yaml.YAMLError as error:
            documents = []
            problems.append(f"not YAML: {error}")
        if problems:
            failed += 1
            print("\n".join(f"{name}: {problem}" for problem in problems))
        for number, document in enumerate(documents, 1):
            problems = list(check_document(document, validators))
            print("".join(f"{name}, document {number}: {problem}\n" for problem in problems), end="")
            passed += not problems
            failed += bool(problems)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()))

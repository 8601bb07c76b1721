// A real editor's language server on every document: no complaint about what is right, an explanation for every field
// that is asked for, completion of what is missing, a complaint about what is wrong.
//
// Usage: node check.js NODE_MODULES DIRECTORY...   (scripts/test prepares NODE_MODULES)

const { spawn } = require("child_process");
const fs = require("fs");
const path = require("path");

const [modules, ...directories] = process.argv.slice(2);
const { createRequire } = require("module");
const rpc = createRequire(path.resolve(modules, "here.js"))("vscode-jsonrpc/node");
const server = spawn(process.execPath, [path.join(modules, "yaml-language-server", "bin", "yaml-language-server"), "--stdio"]);
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(server.stdout),
  new rpc.StreamMessageWriter(server.stdin),
);
const diagnostics = new Map();
let passed = 0;
const failures = [];

function check(holds, what) {
  if (holds) passed += 1;
  else failures.push(what);
}

function yamlFiles(directory) {
  return fs.readdirSync(directory, { withFileTypes: true }).sort((a, b) => a.name.localeCompare(b.name)).flatMap((entry) => {
    const file = path.join(directory, entry.name);
    if (entry.name.startsWith(".")) return [];
    if (entry.isDirectory()) return yamlFiles(file);
    return file.endsWith(".yaml") ? [path.resolve(file)] : [];
  });
}

// The server reports after a pause; the last report of a version counts.
async function settled(uri) {
  for (let round = 0; round < 200; round += 1) {
    await new Promise((done) => setTimeout(done, 50));
    if (diagnostics.has(uri)) return diagnostics.get(uri);
  }
  throw new Error(`no answer about ${uri}`);
}

let version = 0;
async function open(uri, text) {
  diagnostics.delete(uri);
  version += 1;
  await connection.sendNotification("textDocument/didOpen", { textDocument: { uri, languageId: "yaml", version, text } });
  return settled(uri);
}

async function change(uri, text) {
  diagnostics.delete(uri);
  version += 1;
  await connection.sendNotification("textDocument/didChange", { textDocument: { uri, version }, contentChanges: [{ text }] });
  return settled(uri);
}

// What was seen of each kind.
const kinds = new Map();

// Whether a line is the first below `spec:` that is no comment.
function inSpec(lines, line) {
  let above = line - 1;
  while (above > 0 && lines[above].trim().startsWith("#")) above -= 1;
  return lines[above] === "spec:";
}

async function file(name) {
  const uri = `file://${name}`;
  const text = fs.readFileSync(name, "utf8");
  const complaints = await open(uri, text);
  check(complaints.length === 0, `${name}: ${complaints.map((c) => c.message).join("; ")}`);
  const lines = text.split("\n");
  const documents = lines.filter((line) => line.startsWith("apiVersion:")).length;
  let explained = 0;
  for (let line = 0; line < lines.length; line += 1) {
    const field = inSpec(lines, line) && /^  ([a-zA-Z]+):/.exec(lines[line]);
    if (!field) continue;
    const hover = await connection.sendRequest("textDocument/hover", { textDocument: { uri }, position: { line, character: 4 } });
    const words = hover && (hover.contents.value || String(hover.contents));
    check(Boolean(words) && words.length > 30, `${name}:${line + 1}: \`${field[1]}\` is not explained`);
    explained += 1;
    const kind = lines.slice(0, line).reverse().find((l) => l.startsWith("kind: ")).slice("kind: ".length);
    const seen = kinds.get(kind) || { documents: 0, offered: 0 };
    kinds.set(kind, seen);
    seen.documents += 1;
    // A few of each kind, and the last document of every file.
    if (seen.documents > 2 && explained < documents) continue;
    // A misspelt field is seen where it stands, in whichever document of the file.
    const wrong = [...lines];
    wrong.splice(line, 0, "  misspelt: 1");
    const complained = await change(uri, wrong.join("\n"));
    check(complained.some((c) => c.message.includes("misspelt")), `${name}:${line + 1}: a misspelt field is not seen`);
    // A new line in the same place is completed with the fields that are not there yet.
    wrong[line] = "  ";
    await change(uri, wrong.join("\n"));
    const offered = await connection.sendRequest("textDocument/completion", { textDocument: { uri }, position: { line, character: 2 } });
    seen.offered += offered.items.filter((item) => item.documentation).length;
    await change(uri, text);
  }
  check(explained === documents, `${name}: ${explained} of ${documents} documents are explained`);
  await connection.sendNotification("textDocument/didClose", { textDocument: { uri } });
}

async function main() {
  connection.onRequest("workspace/configuration", (p) => p.items.map(() => null));
  connection.onRequest("client/registerCapability", () => null);
  connection.onNotification("textDocument/publishDiagnostics", (p) => diagnostics.set(p.uri, p.diagnostics));
  connection.listen();
  await connection.sendRequest("initialize", {
    processId: process.pid,
    rootUri: null,
    capabilities: { textDocument: { hover: { contentFormat: ["markdown"] }, completion: {} } },
  });
  await connection.sendNotification("initialized", {});
  await connection.sendNotification("workspace/didChangeConfiguration", {
    settings: { yaml: { validate: true, hover: true, completion: true, schemaStore: { enable: false } } },
  });
  for (const name of directories.flatMap(yamlFiles)) await file(name);
  for (const [kind, seen] of kinds) check(seen.offered > 0, `nothing is ever offered in the spec of a ${kind}`);
}

const limit = setTimeout(() => { console.error("the language server did not answer in time"); server.kill(); process.exit(1); }, 600000);
main()
  .catch((error) => failures.push(String(error)))
  .finally(() => {
    clearTimeout(limit);
    server.kill();
    for (const failure of failures) console.error(failure);
    console.log(`${passed} passed, ${failures.length} failed`);
    process.exit(failures.length > 0 || passed === 0 ? 1 : 0);
  });

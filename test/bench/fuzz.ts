/** fuzz: looks for inputs that break a parser; `bin/bench fuzz MINUTES [TARGET…]`, minutes for each target */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { NATIVE_SOURCES } from "../../src/sfu/fast-path/compile.ts";
import { corpusFolder, PARSERS } from "./fuzz/parsers.ts";
import { type Measured, report } from "./harness/report.ts";

/**
 * C entry points run under libFuzzer with the address and undefined-behaviour sanitizers; the code for x86-64 runs on such a machine
 * only. TypeScript parsers run under a fuzzer of our own: it mutates a corpus and keeps every input that reaches a new block of src,
 * or one more or less often. A fault is an exception, a broken promise of the target, too much work for the size, or a hang.
 */
const NATIVE = { srtp: [], receiver: [], "fan-out": [], send: ["sockets"], "receive-loop": ["sockets"] } as const;
const SOCKETS = "-Wl,--wrap=sendmmsg,--wrap=sendmsg,--wrap=poll,--wrap=recvmmsg";
/** The limit of CPU time for one input; other programs may keep the fuzzer waiting longer. */
const HANG_MS = 20_000;
const TICK_MS = 10;
const MAX_INPUT_BYTES = 4_096;

const [minutes = "1", ...chosen] = process.argv.slice(2);
const seconds = Number(minutes) * 60;
const names = [...Object.keys(NATIVE).map((name) => `native-${name}`), ...Object.keys(PARSERS)];
const unknown = chosen.filter((name) => !names.includes(name));
if (!(seconds > 0) || unknown.length > 0) {
  console.error(`usage: bin/bench fuzz MINUTES [TARGET…], where TARGET is one of: ${names.join(", ")}`);
  process.exit(2);
}
const here = (path: string) => join(import.meta.dir, path);
const root = here("../../.cache/fuzz");
const findings = join(root, "findings");
rmSync(findings, { recursive: true, force: true });
mkdirSync(findings, { recursive: true });

type Outcome = { executions: number; coverage: string; corpus: number; faults: string[] };

async function runNative(name: keyof typeof NATIVE): Promise<Outcome> {
  const program = join(root, name);
  const folder = here("../../src/sfu/fast-path");
  const sanitizers = ["-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"];
  const target = here(`fuzz/native/${name}.c`);
  const wrapped = NATIVE[name].length > 0 ? [SOCKETS] : [];
  const command = ["clang", "-std=c11", ...sanitizers, "-I", folder, ...NATIVE_SOURCES, target, ...wrapped];
  const compiling = Bun.spawn([...command, "-lcrypto", "-o", program], { stderr: "pipe" });
  if ((await compiling.exited) !== 0) throw new Error(await new Response(compiling.stderr).text());
  const corpus = join(root, `${name}-corpus`);
  mkdirSync(corpus, { recursive: true });
  const options = [`-max_total_time=${seconds}`, `-max_len=${MAX_INPUT_BYTES}`, "-len_control=0", "-timeout=10"];
  const output = [`-artifact_prefix=${join(findings, `native-${name}-`)}`, "-print_final_stats=1"];
  // The second folder is only read: what is found goes into the first.
  const run = Bun.spawn([program, ...options, ...output, corpus, corpusFolder(`native-${name}`)], {
    stdout: "ignore",
    stderr: "pipe",
  });
  const text = await new Response(run.stderr).text();
  const code = await run.exited;
  const fault = /^(?:SUMMARY|==\d+== ERROR): (.*)$/m.exec(text)?.[1] ?? text.slice(-400);
  return {
    executions: Number(/number_of_executed_units: (\d+)/.exec(text)?.[1] ?? 0),
    coverage: `${[...text.matchAll(/ cov: (\d+)/g)].at(-1)?.[1] ?? 0} of ${/\((\d+) inline 8-bit counters\)/.exec(text)?.[1] ?? "?"} edges`,
    corpus: readdirSync(corpus).length,
    faults: code === 0 ? [] : [fault],
  };
}

function processorMs(pid: number): number {
  const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [user, system] = fields.split(" ").slice(11, 13).map(Number);
  return ((user ?? 0) + (system ?? 0)) * TICK_MS;
}

async function runParser(name: string): Promise<Outcome> {
  const board = join(root, `${name}-input`);
  writeFileSync(board, Buffer.alloc(MAX_INPUT_BYTES + 16));
  const shown = Buffer.from(Bun.mmap(board, { shared: true }).buffer);
  const seed = String(Math.floor(Math.random() * 2 ** 31));
  const child = Bun.spawn(
    [process.execPath, here("fuzz/run-target.ts"), name, String(seconds), board, findings, seed],
    {
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  let last = { executions: -1, usedMs: 0 };
  let isHung = false;
  const watch = setInterval(() => {
    const executions = shown.readDoubleLE(0);
    const usedMs = processorMs(child.pid);
    if (executions === 0 || executions !== last.executions) last = { executions, usedMs };
    else if (usedMs - last.usedMs > HANG_MS) {
      isHung = true;
      child.kill("SIGKILL");
    }
  }, 1_000);
  const [text, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  clearInterval(watch);
  const line = text.trim().split("\n").at(-1) ?? "";
  if (isHung || !line.startsWith("{")) {
    const file = join(findings, `${name}-last`);
    writeFileSync(file, shown.subarray(16, 16 + shown.readUInt32LE(8)));
    const fault = isHung ? `hangs (${file})` : `ends the process (${file}): ${errors.slice(-300)}`;
    return { executions: shown.readDoubleLE(0), coverage: "", corpus: 0, faults: [fault] };
  }
  const told = JSON.parse(line) as {
    executions: number;
    blocks: number;
    places: number;
    corpus: number;
    found: string[][];
  };
  return {
    executions: told.executions,
    coverage: `${told.blocks} blocks of ${told.places} in all parsers`,
    corpus: told.corpus,
    faults: told.found.map(([what, file]) => `${what} (${file})`),
  };
}

const waiting = (chosen.length > 0 ? chosen : names).toReversed();
const outcomes: Record<string, Outcome> = {};
async function work(): Promise<void> {
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const isNative = name.startsWith("native-");
    const outcome = await (isNative ? runNative(name.slice(7) as keyof typeof NATIVE) : runParser(name));
    outcomes[name] = outcome;
    const { executions, coverage, corpus, faults } = outcome;
    console.log(`${name}: ${executions} executions, ${coverage} reached, corpus of ${corpus}, ${faults.length} faults`);
    for (const fault of faults) console.log(`  ${fault}`);
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, work));
const figures: Measured[] = Object.entries(outcomes).flatMap(([name, { executions, faults }]) => [
  { what: `${name}: executions`, value: executions, unit: "" },
  { what: `${name}: faults`, value: faults.length, unit: "", goal: { atMost: 0 } },
]);
report("fuzz", figures, { minutes: Number(minutes), outcomes });

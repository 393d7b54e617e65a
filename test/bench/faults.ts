/** faults: ten minutes under load while everything that can break does, then every promise is checked; `bin/bench faults [seconds] [seed]` */
import { installPackages } from "../../bin/debian-packages.ts";
import { buildBinary } from "../e2e/binary/binary.ts";
import { runFaults } from "../e2e/faults/driver.ts";
import { report } from "./harness/report.ts";

const seconds = Number(process.argv[2] ?? 600);
const seed = Number(process.argv[3] ?? Math.floor(Math.random() * 2 ** 31));

await installPackages(["strace", "faketime"]);
const progress = (line: string) => console.log(line);
progress(`${seconds} s, seed ${seed}`);
const run = { binary: await buildBinary(), seconds, seed, progress, faultSeconds: 6, stopSeconds: 20 };
const { faults, broken, figures, usage } = await runFaults(run);
for (const line of broken.slice(0, 50)) console.log(`BROKEN: ${line}`);
report(
  "faults",
  [
    { what: "faults injected", value: faults, unit: "" },
    { what: "promises broken", value: broken.length, unit: "", goal: { atMost: 0 } },
    { what: "chat messages acknowledged", value: figures.chatMessages, unit: "" },
    { what: "rounds of rooms, tokens, messages and streams by REST", value: figures.restRounds, unit: "" },
    { what: "webhook events delivered", value: figures.webhooks, unit: "" },
    { what: "calls begun", value: figures.calls, unit: "" },
    { what: "packets each listener got", value: figures.packets, unit: "" },
    {
      what: "descriptors more than with everybody there",
      value: usage.after.descriptors - usage.full.descriptors,
      unit: "",
      goal: { atMost: 0 },
    },
    {
      what: "memory more than with everybody there",
      value: usage.after.memoryMiB - usage.full.memoryMiB,
      unit: "MiB",
      goal: { atMost: 150 },
    },
  ],
  { seed, figures, usage, broken: broken.slice(0, 50) },
);
process.exit();

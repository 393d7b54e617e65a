/** calls: `kill -9` during joins and leaves, and what a stock webhook receiver is told of the calls. `bin/bench calls [KILLS]` */
import { killDuringCalls } from "../e2e/faults/call-kills.ts";
import { report } from "./harness/report.ts";

const [kills = 20] = process.argv.slice(2).map(Number);
const outcome = await killDuringCalls(kills, (line) => console.log(line));
for (const fault of outcome.faults) console.log(fault);
report(
  "calls",
  [
    { what: "kills", value: outcome.kills, unit: "" },
    { what: "calls", value: outcome.calls, unit: "" },
    { what: "events", value: outcome.events, unit: "" },
    { what: "requests, all of them verified", value: outcome.requests, unit: "" },
    { what: "faults", value: outcome.faults.length, unit: "", goal: { atMost: 0 } },
  ],
  outcome,
);
process.exit();

/** chat-faults: kill -9 under load, 50 rounds, and 5,000 sockets that break and resume at once; `bin/bench chat-faults [rounds] [sockets]` */
import { crashRounds } from "../features/chat/crash.ts";
import { reconnectStorm } from "../features/chat/socket/reconnect-storm.ts";
import { report } from "./harness/report.ts";

const rounds = Number(process.argv[2] ?? 50);
const sockets = Number(process.argv[3] ?? 5000);

const crash = await crashRounds(rounds, Math.random);
const storm = await reconnectStorm(sockets);
const none = { atMost: 0 };
report(
  "chat-faults",
  [
    { what: `killed ${rounds} times: acknowledged`, value: crash.acknowledged, unit: "messages" },
    { what: "sent again after a crash", value: crash.retried, unit: "messages" },
    { what: "acknowledged and lost", value: crash.lost, unit: "", goal: none },
    { what: "doubled by a retry", value: crash.duplicates, unit: "", goal: none },
    { what: "other than acknowledged", value: crash.changed, unit: "", goal: none },
    { what: "gaps in seq", value: crash.gaps, unit: "", goal: none },
    { what: `${sockets} sockets back and resumed in`, value: storm.stormMs / 1000, unit: "s", goal: { atMost: 10 } },
    { what: "not resumed, or with a gap", value: sockets - storm.resumed + storm.gaps, unit: "", goal: none },
    { what: "per reconnect", value: storm.cpuMicrosPerReconnect, unit: "µs of CPU" },
    { what: "sends acknowledged meanwhile", value: storm.sendsDuring, unit: "" },
    { what: "their ack p50", value: storm.sendAckMs.p50, unit: "ms" },
    { what: "their ack p99", value: storm.sendAckMs.p99, unit: "ms" },
  ],
  { crash, storm },
);
process.exit();

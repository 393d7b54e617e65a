/** Honest chat users for so many seconds, in a process of their own; what came of it goes to stdout. */
import { runChatLoad } from "../../../src/ops/load-test/chat-load.ts";
import { percentileOf, watchTurns } from "./stalls.ts";

const [url = "", apiKey = "", users = "0", seconds = "0"] = process.argv.slice(2);
const USERS_IN_A_CONVERSATION = 10;
// The delays of this process itself, which are part of an acknowledgement's time but not the server's fault.
const { late } = watchTurns();
const figures = await runChatLoad(
  {
    url,
    apiKey,
    durationSeconds: Number(seconds),
    rate: 1,
    senders: 2,
    readers: USERS_IN_A_CONVERSATION - 2,
    conversations: Math.ceil(Number(users) / USERS_IN_A_CONVERSATION),
  },
  () => {},
);
console.log(JSON.stringify({ ...figures, ownLatenessP99: percentileOf(late(), 0.99) }));
process.exit();

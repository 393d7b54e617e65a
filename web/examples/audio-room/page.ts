/** An audio room: everybody listens, whoever wants to speak waits in a queue, and the host (`?user=host`) lets them. */
import { connect } from "stoa/client";
import type { Join } from "stoa/server";
import { ask, button, line, place } from "../ask.ts";

const isHost = place.user === "host";
const { room: record, rtc } = await ask<Join>("/api/join", { room: "stage", ...(isHost ? {} : { listen: "" }) });
const room = await connect(rtc.endpoint, rtc.token);
const state = line(isHost ? "You are the host." : "You listen.");

if (isHost) {
  await room.localParticipant.enableMicrophone();
  const queue: string[] = [];
  const shown = line("Nobody waits.");
  const tell = () => {
    shown.textContent = queue.length > 0 ? `Waiting: ${queue.join(", ")}` : "Nobody waits.";
  };
  room.on("dataReceived", ({ from, topic }) => {
    if (topic === "speak" && from && !queue.includes(from)) queue.push(from);
    tell();
  });
  button("Next speaker", async () => {
    const user = queue.shift();
    tell();
    // Only the backend can give a permission; it would check who asks.
    if (user) await ask("/api/speak", { room: record.id, user });
  });
} else {
  button("I want to speak", () => void room.sendData("please", { topic: "speak" }));
  room.on("permissionsChanged", async ({ publish }) => {
    if (publish) await room.localParticipant.enableMicrophone();
    state.textContent = publish ? "You speak." : "You listen.";
  });
}

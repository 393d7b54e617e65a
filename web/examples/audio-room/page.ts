/** An audio room: all participants listen, and the host (`?user=host`) lets those who queue up speak one by one. */
import { connect } from "stoa/client";
import type { Join } from "stoa/server";
import { button, callBackend, line, params } from "../backend.ts";

const isHost = params.user === "host";
const { room: record, rtc } = await callBackend<Join>("/api/join", {
  room: "stage",
  ...(isHost ? {} : { listen: "" }),
});
const room = await connect(rtc.endpoint, rtc.token);
const state = line(isHost ? "You are the host." : "You are listening.");

if (isHost) {
  await room.localParticipant.enableMicrophone();
  const queue: string[] = [];
  const queueLine = line("The queue is empty.");
  const showQueue = () => {
    queueLine.textContent = queue.length > 0 ? `Waiting: ${queue.join(", ")}` : "The queue is empty.";
  };
  room.on("dataReceived", ({ from, topic }) => {
    if (topic === "speak" && from && !queue.includes(from)) queue.push(from);
    showQueue();
  });
  button("Next speaker", async () => {
    const user = queue.shift();
    showQueue();
    // Only the backend can grant a permission; a real one checks first that the caller is the host.
    if (user) await callBackend("/api/speak", { room: record.id, user });
  });
} else {
  button("I want to speak", () => void room.sendData("please", { topic: "speak" }));
  room.on("permissionsChanged", async ({ publish }) => {
    if (publish) await room.localParticipant.enableMicrophone();
    state.textContent = publish ? "You are speaking." : "You are listening.";
  });
}

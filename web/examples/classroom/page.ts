/** A classroom: pupils raise hands, the teacher (`?user=teacher`) sends them into groups and calls them back. */
import { connect, type Room } from "stoa/client";
import type { Join } from "stoa/server";
import { app, button, callBackend, line, params } from "../backend.ts";

const isTeacher = params.user === "teacher";
const roomLine = line("");
const hands = line("");
let room: Room | null = null;

async function enter(name: string): Promise<void> {
  await room?.close();
  const { rtc } = await callBackend<Join>("/api/join", { room: name });
  room = await connect(rtc.endpoint, rtc.token);
  const raised = new Set<string>();
  room.on("dataReceived", ({ from, topic, payload }) => {
    if (topic === "hand" && from) raised.add(from);
    hands.textContent = raised.size > 0 ? `Hands: ${[...raised].join(", ")}` : "";
    // Only the teacher may move pupils to another room.
    if (topic === "group" && from === "teacher") void enter(payload);
  });
  const show = () => {
    roomLine.textContent = `In ${name} with ${[...(room?.participants.keys() ?? [])].sort().join(", ") || "nobody"}`;
  };
  for (const event of ["participantJoined", "participantLeft"] as const) room.on(event, show);
  show();
}

await enter("class");
if (isTeacher) {
  button("Into groups", () => {
    const pupils = [...(room?.participants.keys() ?? [])].sort();
    for (const [index, pupil] of pupils.entries())
      void room?.sendData(`group-${1 + (index % 2)}`, { topic: "group", to: [pupil] });
  });
} else button("Raise hand", () => void room?.sendData("up", { topic: "hand" }));
app.dataset.ready = "yes";

/** Push to talk: the microphone is unmuted only while the button is held. */
import { connect } from "stoa/client";
import type { Join } from "stoa/server";
import { button, callBackend, line } from "../backend.ts";

const { rtc } = await callBackend<Join>("/api/join", { room: "channel-1" });
const room = await connect(rtc.endpoint, rtc.token);
const microphone = await room.localParticipant.enableMicrophone();
await room.localParticipant.mute(microphone);

const talk = button("Hold to talk", () => {});
const open = (on: boolean) => void room.localParticipant.mute(microphone, !on);
talk.onpointerdown = () => open(true);
talk.onpointerup = talk.onpointerleave = () => open(false);

const status = line("Silence.");
room.on("trackUnmuted", (_track, { identity }) => {
  status.textContent = `${identity} is speaking.`;
});
room.on("trackMuted", () => {
  status.textContent = "Silence.";
});

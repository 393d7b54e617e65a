/** A live shop: the host (`?host`) publishes the camera, the viewers watch and chat. */
import { connect } from "stoa/client";
import type { StreamCredentials } from "stoa/server";
import { app, callBackend, line, params } from "../backend.ts";

const { streamId, rtc, chat } = await callBackend<StreamCredentials>("/api/live");
if (params.host !== undefined) {
  const room = await connect(rtc.endpoint, rtc.token);
  const camera = await room.localParticipant.enableCamera();
  app.append(camera.attach());
  line("You are live.");
} else {
  const live = document.createElement("stoa-live");
  const attributes = { stream: streamId, room: rtc.roomId, endpoint: rtc.endpoint, token: rtc.token };
  for (const [name, value] of Object.entries(attributes)) live.setAttribute(name, value);
  live.setAttribute("chat-endpoint", chat.endpoint);
  live.setAttribute("chat-token", chat.token);
  app.append(live);
}

/** @jsxImportSource react */
/** A page as LiveKit's own guide shows it: the whole conference from its React components. */
import "@livekit/components-styles";
import { LiveKitRoom, VideoConference } from "@livekit/components-react";
import { Room } from "livekit-client";
import { createRoot } from "react-dom/client";

const { serverUrl, token } = Object.fromEntries(new URLSearchParams(location.search));
const resolution = { width: 640, height: 360, frameRate: 15 };
window.livekit = new Room({ adaptiveStream: true, dynacast: true, videoCaptureDefaults: { resolution } });

createRoot(document.getElementById("root")).render(
  <LiveKitRoom
    room={window.livekit}
    serverUrl={serverUrl}
    token={token}
    connect
    audio
    video
    data-lk-theme="default"
    style={{ height: "100vh" }}
  >
    <VideoConference />
  </LiveKitRoom>,
);

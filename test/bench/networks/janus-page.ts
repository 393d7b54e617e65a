/** Functions that run in the pages of a call over Janus. Each one stands alone, because it is sent there as text. */

/** Offers the page's clouds, with all candidates of this machine. */
export async function offerClouds(): Promise<string> {
  const connection = new RTCPeerConnection();
  window.connection = connection;
  const { microphone, pictures, encodings } = window.clouds;
  connection.addTransceiver(microphone, { direction: "sendonly" });
  for (const track of pictures)
    connection.addTransceiver(track, { direction: "sendonly", sendEncodings: encodings.map((one) => ({ ...one })) });
  await connection.setLocalDescription();
  while (connection.iceGatheringState !== "complete") await new Promise((resolve) => setTimeout(resolve, 20));
  return connection.localDescription?.sdp ?? "";
}

export async function acceptAnswer(sdp: string): Promise<void> {
  await window.connection.setRemoteDescription({ type: "answer", sdp });
}

/** Accepts all offered tracks, and shows their videos. */
export async function answerOffer(sdp: string): Promise<string> {
  const connection = new RTCPeerConnection();
  window.connection = connection;
  connection.ontrack = ({ track }) => {
    const element = document.createElement(track.kind === "video" ? "video" : "audio");
    element.autoplay = true;
    element.srcObject = new MediaStream([track]);
    if (element instanceof HTMLVideoElement) window.seat(Object.assign(element, { muted: true }));
    else document.body.append(element);
  };
  await connection.setRemoteDescription({ type: "offer", sdp });
  await connection.setLocalDescription();
  while (connection.iceGatheringState !== "complete") await new Promise((resolve) => setTimeout(resolve, 20));
  setInterval(async () => {
    let bytes = 0;
    for (const one of (await connection.getStats()).values())
      if (one.type === "inbound-rtp") bytes += one.bytesReceived;
    window.seats.bytes = bytes;
  }, 1_000);
  return connection.localDescription?.sdp ?? "";
}

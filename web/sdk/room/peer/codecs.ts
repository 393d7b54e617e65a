/** Codecs that a picture can be published with. Every browser sends VP8 and H.264. */
export type VideoCodec = "VP8" | "H264" | "VP9" | "AV1";

const RECEIVED: readonly VideoCodec[] = ["VP8", "H264", "VP9", "AV1"];

/** Few codecs make short offers: with fifty sections that is the difference between 57 and 148 KB. */
export function preferCodecs(transceiver: RTCRtpTransceiver, kind: "audio" | "video", first?: VideoCodec): void {
  const capabilities = RTCRtpReceiver.getCapabilities(kind)?.codecs ?? [];
  const wanted = kind === "audio" ? audioCodecs(capabilities) : videoCodecs(capabilities, first);
  // Firefox has it since 128.
  if (wanted.length > 0) transceiver.setCodecPreferences?.(wanted);
}

/** RED first, where the browser has it: every packet repeats the one before, so that a single loss is not heard. */
function audioCodecs(codecs: RTCRtpCodec[]): RTCRtpCodec[] {
  return ["red", "opus"].flatMap((name) => codecs.filter(({ mimeType }) => mimeType.toLowerCase() === `audio/${name}`));
}

function videoCodecs(codecs: RTCRtpCodec[], first: VideoCodec | undefined): RTCRtpCodec[] {
  const order = first === undefined ? RECEIVED : [first, ...RECEIVED.filter((name) => name !== first)];
  const chosen = order.flatMap((name) => codecs.filter((codec) => isUseful(codec, name)));
  return [...chosen, ...codecs.filter(({ mimeType }) => /\/rtx$/i.test(mimeType))];
}

/** One profile per codec that every browser decodes; H.264 in packetization mode 1, constrained baseline. */
function isUseful({ mimeType, sdpFmtpLine = "" }: RTCRtpCodec, name: VideoCodec): boolean {
  if (mimeType.toLowerCase() !== `video/${name.toLowerCase()}`) return false;
  if (name === "H264") return /packetization-mode=1/.test(sdpFmtpLine) && /profile-level-id=42e0/i.test(sdpFmtpLine);
  if (name === "VP9") return !/profile-id=[123]/.test(sdpFmtpLine);
  return true;
}

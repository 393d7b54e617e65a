/** The video codecs that a track can be published with. All browsers can send VP8 and H.264. */
export type VideoCodec = "VP8" | "H264" | "VP9" | "AV1";

const CODEC_ORDER: readonly VideoCodec[] = ["VP8", "H264", "VP9", "AV1"];

/** RED doubles the rate, so above this one lost audio is only sent again. */
const MAX_RED_BITRATE = 96_000;

/** Offers few codecs to keep offers short: with fifty media sections, 57 KB instead of 148 KB. */
export function preferCodecs(
  transceiver: RTCRtpTransceiver,
  kind: "audio" | "video",
  {
    first,
    maxBitrate = 0,
    encrypted = false,
  }: { first?: VideoCodec | undefined; maxBitrate?: number; encrypted?: boolean } = {},
): void {
  const capabilities = RTCRtpReceiver.getCapabilities(kind)?.codecs ?? [];
  // The server takes redundant audio apart for those who cannot, which it cannot do with encrypted frames.
  const redundant = maxBitrate <= MAX_RED_BITRATE && !encrypted;
  const wanted = kind === "audio" ? audioCodecs(capabilities, redundant) : videoCodecs(capabilities, first);
  // Firefox before 128 lacks `setCodecPreferences`.
  if (wanted.length > 0) transceiver.setCodecPreferences?.(wanted);
}

/** RED comes first where it is supported: each packet repeats the previous one, which conceals single losses. */
function audioCodecs(codecs: RTCRtpCodec[], redundant: boolean): RTCRtpCodec[] {
  return (redundant ? ["red", "opus"] : ["opus"]).flatMap((name) =>
    codecs.filter(({ mimeType }) => mimeType.toLowerCase() === `audio/${name}`),
  );
}

function videoCodecs(codecs: RTCRtpCodec[], first: VideoCodec | undefined): RTCRtpCodec[] {
  const order = first === undefined ? CODEC_ORDER : [first, ...CODEC_ORDER.filter((name) => name !== first)];
  const chosen = order.flatMap((name) => codecs.filter((codec) => isUseful(codec, name)));
  return [...chosen, ...codecs.filter(({ mimeType }) => /\/rtx$/i.test(mimeType))];
}

/** Keeps the one profile per codec that every browser decodes; for H.264, constrained baseline in packetization mode 1. */
function isUseful({ mimeType, sdpFmtpLine = "" }: RTCRtpCodec, name: VideoCodec): boolean {
  if (mimeType.toLowerCase() !== `video/${name.toLowerCase()}`) return false;
  if (name === "H264") return /packetization-mode=1/.test(sdpFmtpLine) && /profile-level-id=42e0/i.test(sdpFmtpLine);
  if (name === "VP9") return !/profile-id=[123]/.test(sdpFmtpLine);
  return true;
}

const DEPENDENCY_DESCRIPTOR = "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";

type HeaderExtension = { uri: string; direction: RTCRtpTransceiverDirection };
/** Not in the DOM's types yet; Firefox does not have it. */
type ExtendableTransceiver = RTCRtpTransceiver & {
  getHeaderExtensionsToNegotiate?(): HeaderExtension[];
  setHeaderExtensionsToNegotiate?(extensions: HeaderExtension[]): void;
};

/** Chromium receives the dependency descriptor only where asked to, and shows no AV1 with spatial layers without it. */
export function receiveDependencyDescriptors(transceiver: ExtendableTransceiver): void {
  const extensions = transceiver.getHeaderExtensionsToNegotiate?.() ?? [];
  for (const extension of extensions) if (extension.uri === DEPENDENCY_DESCRIPTOR) extension.direction = "sendrecv";
  transceiver.setHeaderExtensionsToNegotiate?.(extensions);
}

let scalable: boolean | undefined;

/** Whether the browser knows `scalabilityMode`, without which it may encode the layers of VP9 wrongly. */
export function supportsScalabilityMode(): boolean {
  if (scalable !== undefined) return scalable;
  const pc = new RTCPeerConnection();
  const { sender } = pc.addTransceiver("video", { sendEncodings: [{ scalabilityMode: "L1T1" } as object] });
  scalable = "scalabilityMode" in (sender.getParameters().encodings[0] ?? {});
  pc.close();
  return scalable;
}

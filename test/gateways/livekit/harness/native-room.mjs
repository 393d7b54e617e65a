/** Participants of LiveKit's native SDK for Node, for the scripts beside it: what they get, they say line by line. */
import { pathToFileURL } from "node:url";

export const { packages, url, tokens } = JSON.parse(process.argv[2] ?? "{}");
export const rtc = await import(pathToFileURL(`${packages}/@livekit/rtc-node/dist/index.js`).href);
const { AudioFrame, AudioSource, AudioStream, LocalAudioTrack, LocalVideoTrack, Room, RoomEvent } = rtc;
const { TrackKind, TrackPublishOptions, TrackSource, VideoBufferType, VideoFrame, VideoSource, VideoStream } = rtc;

export const say = (line) => process.stdout.write(`${line}\n`);
const RATE = 48_000;
const VIDEO = { width: 320, height: 180, everyMs: 66 };

export async function enter(name, token) {
  const room = new Room();
  room.on(RoomEvent.TrackSubscribed, async (track, publication, participant) => {
    const of = `${name} gets ${participant.identity} ${publication.kind === TrackKind.KIND_AUDIO ? "audio" : "video"}`;
    if (publication.kind === TrackKind.KIND_AUDIO) {
      for await (const frame of new AudioStream(track)) if (frame.data.some((sample) => Math.abs(sample) > 100)) break;
    } else {
      let frames = 0;
      for await (const _ of new VideoStream(track)) if (++frames === 15) break;
    }
    say(of);
  });
  room.on(RoomEvent.DataReceived, (payload, participant, _kind, topic) =>
    say(`${name} reads ${participant?.identity} ${topic} ${new TextDecoder().decode(payload)}`),
  );
  room.on(RoomEvent.TrackMuted, (_, participant) => say(`${name} sees ${participant.identity} muted`));
  room.on(RoomEvent.TrackUnpublished, (_, participant) => say(`${name} sees ${participant.identity} unpublish`));
  room.on(RoomEvent.ParticipantAttributesChanged, (changed, participant) =>
    say(`${name} sees ${participant.identity} ${JSON.stringify(changed)}`),
  );
  room.on(RoomEvent.ParticipantDisconnected, (participant) => say(`${name} sees ${participant.identity} leave`));
  room.on(RoomEvent.Reconnecting, () => say(`${name} looks for the server`));
  room.on(RoomEvent.Disconnected, () => say(`${name} is out`));
  await room.connect(url, token, { autoSubscribe: true, dynacast: false });
  say(`${name} is in ${room.name}`);
  return room;
}

function sound() {
  const source = new AudioSource(RATE, 1);
  let at = 0;
  const next = async () => {
    const samples = new Int16Array(RATE / 50);
    for (let i = 0; i < samples.length; i++) samples[i] = 8_000 * Math.sin(((at + i) * 2 * Math.PI * 440) / RATE);
    at += samples.length;
    await source.captureFrame(new AudioFrame(samples, RATE, 1, samples.length));
    setTimeout(next, 0);
  };
  void next();
  return source;
}

function videoSource({ width, height, everyMs }) {
  const source = new VideoSource(width, height);
  let frame = 0;
  setInterval(() => {
    const data = new Uint8Array(width * height * 4).fill((frame++ * 7) % 256);
    source.captureFrame(new VideoFrame(data, width, height, VideoBufferType.RGBA));
  }, everyMs);
  return source;
}

export async function publish(room, kind, shape = VIDEO) {
  const options = new TrackPublishOptions();
  options.source = kind === "audio" ? TrackSource.SOURCE_MICROPHONE : TrackSource.SOURCE_CAMERA;
  const track =
    kind === "audio"
      ? LocalAudioTrack.createAudioTrack("voice", sound())
      : LocalVideoTrack.createVideoTrack("face", videoSource(shape));
  return room.localParticipant.publishTrack(track, options);
}

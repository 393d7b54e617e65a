/**
 * A voice agent of agents-js with stub models: it greets with a second of a tone for every three letters, hears somebody speak by
 * the energy of the sound, answers what it heard, and falls silent when it is interrupted. `voice-agent.mjs start` is a worker.
 */
import { pathToFileURL } from "node:url";

const from = (name) => import(pathToFileURL(`${process.env.AGENT_PACKAGES}/${name}/dist/index.js`).href);
const { cli, defineAgent, llm, ServerOptions, stt, tts, voice } = await from("@livekit/agents");
const { AudioFrame } = await from("@livekit/rtc-node");

const RATE = 24_000;
const FRAME = RATE / 50;
const HZ = 700;
/** So many that a busy machine, too, hears an answer while it is spoken. */
const FRAMES_PER_LETTER = 15;
const LOUD = 500;
const SILENT_FRAMES = 40;

class StubLlmStream extends llm.LLMStream {
  async run() {
    const words = this.chatCtx.items.findLast((item) => item.type === "message" && item.role === "user")?.textContent;
    this.queue.put({ id: "answer", delta: { role: "assistant", content: `You said: ${words}.` } });
  }
}

class StubLlm extends llm.LLM {
  label = () => "stub.llm";
  chat = ({ chatCtx, toolCtx, connOptions }) => new StubLlmStream(this, { chatCtx, toolCtx, connOptions });
}

class StubSpeech extends tts.ChunkedStream {
  label = "stub.speech";
  async run() {
    const frames = Math.max(25, this.inputText.length * FRAMES_PER_LETTER);
    for (let n = 0; n < frames; n++) {
      const frame = new AudioFrame(new Int16Array(FRAME), RATE, 1, FRAME);
      for (let i = 0; i < FRAME; i++) frame.data[i] = 12_000 * Math.sin((2 * Math.PI * HZ * (n * FRAME + i)) / RATE);
      this.queue.put({ requestId: "r", segmentId: "s", frame, final: n === frames - 1 });
    }
    this.queue.close();
  }
}

class StubTts extends tts.TTS {
  label = "stub.tts";
  constructor() {
    super(RATE, 1, { streaming: false });
  }
  synthesize = (text, connOptions, signal) => new StubSpeech(text, this, connOptions, signal);
}

class StubHearing extends stt.SpeechStream {
  label = "stub.hearing";
  async run() {
    const { START_OF_SPEECH, INTERIM_TRANSCRIPT, FINAL_TRANSCRIPT, END_OF_SPEECH } = stt.SpeechEventType;
    const said = (text) => [{ language: "en", text, startTime: 0, endTime: 0, confidence: 1 }];
    let quiet = SILENT_FRAMES;
    for await (const frame of this.input) {
      if (typeof frame === "symbol") continue;
      const isLoud = frame.data.some((sample) => Math.abs(sample) > LOUD);
      if (isLoud && quiet >= SILENT_FRAMES) {
        this.queue.put({ type: START_OF_SPEECH });
        this.queue.put({ type: INTERIM_TRANSCRIPT, alternatives: said("a tone") });
      }
      if (!isLoud && quiet === SILENT_FRAMES - 1) {
        this.queue.put({ type: FINAL_TRANSCRIPT, alternatives: said("a tone from you") });
        this.queue.put({ type: END_OF_SPEECH });
      }
      quiet = isLoud ? 0 : quiet + 1;
    }
  }
}

class StubStt extends stt.STT {
  label = "stub.stt";
  constructor() {
    super({ streaming: true, interimResults: true });
  }
  stream = (options) => new StubHearing(this, 16_000, options?.connOptions);
  async _recognize() {
    throw new Error("only streams are recognized");
  }
}

// biome-ignore lint/style/noDefaultExport: agents-js imports it from its job process
export default defineAgent({
  async entry(context) {
    const session = new voice.AgentSession({
      ...{ stt: new StubStt(), llm: new StubLlm(), tts: new StubTts(), vad: null, aecWarmupDuration: null },
      turnHandling: { turnDetection: "stt", interruption: { minDuration: 0, minWords: 0 } },
    });
    await session.start({ agent: new voice.Agent({ instructions: "" }), room: context.room, record: false });
    await context.connect();
    // A minute and a half, so that a busy machine, too, interrupts it before its end.
    session.say(`Good day to you, this is a ${"very, ".repeat(40)}long greeting.`, { allowInterruptions: true });
  },
});

if (process.argv[2] === "start")
  cli.runApp(new ServerOptions({ agent: import.meta.filename, numIdleProcesses: 1, port: 0, host: "127.0.0.1" }));

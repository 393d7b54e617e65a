import {
  type AvailabilityRequest,
  AvailabilityResponse,
  type JobAssignment,
  JobType,
  type ParticipantPermission,
  RegisterWorkerRequest,
  ServerMessage,
  UpdateWorkerStatus,
  WorkerMessage,
  type WorkerStatus,
} from "@livekit/protocol";

type Incoming = Exclude<ServerMessage["message"], { case: undefined }>;
type Heard<T extends Incoming["case"]> = Extract<Incoming, { case: T }>["value"];
type Options = {
  agentName?: string;
  type?: JobType;
  allowedPermissions?: ParticipantPermission;
  accepts?: (asked: AvailabilityRequest) => boolean;
};

/** A worker of agents as LiveKit's frameworks have one, without the framework. */
export class RawWorker {
  readonly heard: Incoming[] = [];
  closed: { code: number; reason: string } | null = null;
  readonly #socket: WebSocket;
  readonly #waiting = new Set<() => void>();

  private constructor(socket: WebSocket, accepts: (asked: AvailabilityRequest) => boolean) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      const { message } = ServerMessage.fromBinary(new Uint8Array(data as ArrayBuffer));
      if (message.case === undefined) throw new Error("a message that is not known");
      this.heard.push(message);
      if (message.case === "availability") this.#answer(message.value, accepts(message.value));
      for (const wake of this.#waiting) wake();
    };
    socket.onclose = ({ code, reason }) => {
      this.closed = { code, reason };
      for (const wake of this.#waiting) wake();
    };
  }

  static async open(url: string, token: string, options: Options = {}): Promise<RawWorker> {
    const { agentName = "", type = JobType.JT_ROOM, allowedPermissions, accepts = () => true } = options;
    const socket = new WebSocket(`${url}/agent`, { headers: { authorization: `Bearer ${token}` } } as never);
    const worker = new RawWorker(socket, accepts);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new Error("the socket was refused"));
    });
    const registration = { type, agentName, version: "1.0.0", ...(allowedPermissions && { allowedPermissions }) };
    worker.send({ case: "register", value: new RegisterWorkerRequest(registration) });
    await worker.hears("register");
    return worker;
  }

  send(message: WorkerMessage["message"]): void {
    this.#socket.send(Buffer.from(new WorkerMessage({ message }).toBinary()));
  }

  sendRaw(frame: Buffer<ArrayBuffer> | string): void {
    this.#socket.send(frame);
  }

  report(status: WorkerStatus): void {
    this.send({ case: "updateWorker", value: new UpdateWorkerStatus({ status, load: 0.1 }) });
  }

  /** The n-th such message, now or later. */
  async hears<T extends Incoming["case"]>(name: T, n = 1): Promise<Heard<T>> {
    const all = () => this.heard.filter((one) => one.case === name);
    await this.until(() => all().length >= n || this.closed !== null, name);
    const found = all()[n - 1];
    if (!found) throw new Error(`the socket was closed before ${name} came`);
    return found.value as Heard<T>;
  }

  assignment = (n = 1): Promise<JobAssignment> => this.hears("assignment", n);

  async until(holds: () => boolean, what: string): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (!holds()) {
      if (Date.now() > deadline) throw new Error(`${what} did not come`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiting.delete(wake);
          clearTimeout(timer);
          resolve();
        };
        const timer = setTimeout(wake, 1_000);
        this.#waiting.add(wake);
      });
    }
  }

  close(): void {
    this.#socket.close();
  }

  #answer({ job }: AvailabilityRequest, available: boolean): void {
    const value = new AvailabilityResponse({
      jobId: job?.id ?? "",
      available,
      participantName: "Helper",
      participantIdentity: `agent-${job?.id}`,
      participantAttributes: { mood: "calm" },
    });
    this.send({ case: "availability", value });
  }
}

import { randomUUID } from "node:crypto";
import type { CallDetail, Join, Stoa } from "stoa/server";

export type Visit = {
  /** Unguessable: the patient's page needs nothing else. */
  id: string;
  patientId: string;
  patientName: string;
  status: "WAITING" | "OPEN" | "CLOSED";
  recordingId: string | null;
  replayableId: string | null;
  verdicts: { name: string; sentence: string }[];
};

const CLINICIAN = { user: "clinician-grey", name: "Dr. Grey" };
const POLL_MS = 200;
const MINUTES = 60;

export class NotPossible extends Error {}

/** The visits of a practice. They are kept in memory here, and would be in your database. */
export class Visits {
  readonly #stoa: Stoa;
  readonly #visits = new Map<string, Visit>();

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
  }

  get all(): Visit[] {
    return [...this.#visits.values()];
  }

  find(id: string): Visit {
    const visit = this.#visits.get(id);
    if (!visit) throw new NotPossible("There is no such visit.");
    return visit;
  }

  /** The visit of a room; each visit has a room of its own. */
  ofRoom(roomName: string): Visit | undefined {
    return this.all.find((visit) => roomOf(visit) === roomName);
  }

  /** Puts a patient into the waiting room. */
  add(patientName: string): Visit {
    const id = randomUUID();
    const rest = { status: "WAITING" as const, recordingId: null, replayableId: null, verdicts: [] };
    const visit: Visit = { id, patientId: `patient-${randomUUID()}`, patientName, ...rest };
    this.#visits.set(id, visit);
    return visit;
  }

  /** Lets the patient in: from now on the credentials of the room are minted. */
  async open(visit: Visit): Promise<void> {
    await this.#stoa.rooms.create({ name: roomOf(visit), maxParticipants: 2 });
    visit.status = "OPEN";
  }

  joinAsPatient = (visit: Visit) => this.#join(visit, { user: visit.patientId, name: visit.patientName });
  joinAsClinician = (visit: Visit) => this.#join(visit, CLINICIAN);

  async #join(visit: Visit, person: { user: string; name: string }): Promise<Pick<Join, "rtc" | "chat">> {
    if (visit.status !== "OPEN") throw new NotPossible("The visit has not begun, or is over.");
    const { rtc, chat } = await this.#stoa.mintJoin({ room: roomOf(visit), ...person });
    return { rtc, chat };
  }

  async record(visit: Visit): Promise<void> {
    const { id } = await this.#stoa.recordings.start(roomOf(visit), { name: `Visit of ${visit.patientName}` });
    visit.recordingId = id;
  }

  async stopRecording(visit: Visit): Promise<void> {
    if (visit.recordingId) await this.#stoa.recordings.stop(visit.recordingId);
    visit.recordingId = null;
  }

  /** Ends the call for both. A running recording ends with it. */
  async close(visit: Visit): Promise<void> {
    visit.status = "CLOSED";
    visit.recordingId = null;
    await this.#stoa.rooms.close(roomOf(visit));
  }

  /** Keeps how good the call was for each person; who left and rejoined is in the record once for each time. */
  setVerdicts(visit: Visit, { participants }: CallDetail): void {
    const last = new Map(participants.map((participant) => [participant.identity, participant]));
    visit.verdicts = [...last.values()].map(({ identity, name, verdict }) => ({
      name: name ?? identity,
      sentence: verdict?.sentence ?? "",
    }));
  }

  /** A page that plays the recording, for a quarter of an hour. */
  async replay(visit: Visit): Promise<string> {
    if (!visit.replayableId) throw new NotPossible("The visit was not recorded.");
    return (await this.#stoa.recordings.mintViewToken(visit.replayableId, { ttlSeconds: 15 * MINUTES })).url;
  }

  /** A tar file of everything that is held about the patient. */
  async export({ patientId }: Visit): Promise<string> {
    const { people } = this.#stoa;
    let made = await people.export(patientId);
    while (made.status === "RUNNING") {
      await pause();
      made = await people.getExport(patientId, made.id);
    }
    if (!made.url) throw new Error("The export failed.");
    return made.url;
  }

  async erase(visit: Visit): Promise<void> {
    const { people } = this.#stoa;
    let erasure = await people.erase(visit.patientId);
    while (erasure.status !== "DONE") {
      await pause();
      erasure = (await people.get(visit.patientId)).erasure ?? erasure;
    }
    this.#visits.delete(visit.id);
  }
}

const roomOf = ({ id }: Visit) => `visit-${id}`;
const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

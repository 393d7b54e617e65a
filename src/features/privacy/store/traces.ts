import type { Db } from "../../../kernel/db/open.ts";
import { chatTraces } from "./chat-traces.store.ts";
import { contactTraces } from "./contact-traces.store.ts";
import { mediaTraces } from "./media-traces.store.ts";
import { queueTraces } from "./queue-traces.store.ts";
import { recordingTraces } from "./recording-traces.store.ts";

export type Traces = ReturnType<typeof createTraces>;

/** Every place in the database that a person can be found in. */
export function createTraces(db: Db) {
  return {
    chat: chatTraces(db),
    contacts: contactTraces(db),
    media: mediaTraces(db),
    queues: queueTraces(db),
    recordings: recordingTraces(db),
  };
}

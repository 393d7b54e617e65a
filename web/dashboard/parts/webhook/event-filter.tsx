import { WEBHOOK_EVENT_TYPES, type WebhookEventType } from "../../../../src/protocol/webhook-events.ts";
import { Check } from "../form.tsx";

type EventFilterProps = { events: WebhookEventType[]; onEvents: (events: WebhookEventType[]) => void };

/** Which events an endpoint gets; none chosen means all. */
export function EventFilter({ events, onEvents }: EventFilterProps) {
  return (
    <details>
      <summary>{events.length === 0 ? "Every event, new ones included" : `${events.length} events`}</summary>
      <fieldset class="checks">
        <legend class="hidden">Events</legend>
        {WEBHOOK_EVENT_TYPES.map((type) => (
          <Check
            key={type}
            checked={events.includes(type)}
            onChecked={(on) => onEvents(on ? [...events, type] : events.filter((one) => one !== type))}
          >
            {type}
          </Check>
        ))}
      </fieldset>
    </details>
  );
}

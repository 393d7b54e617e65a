import { useState } from "preact/hooks";
import type { ApiFailure } from "../api.ts";
import { asFailure } from "../live.ts";

type InputProps = {
  value: string;
  onValue: (value: string) => void;
  type?: "text" | "email" | "password" | "search" | "url" | "number" | "datetime-local";
  id?: string;
  label?: string;
  required?: boolean;
  minLength?: number;
  maxLength?: number;
  min?: number;
  max?: number;
  placeholder?: string;
  autocomplete?: string;
};

export function TextInput({ onValue, label, ...rest }: InputProps) {
  // The element's own type is a union by `type`, which a variable of that union does not fit.
  const attributes: object = rest;
  return (
    <input
      class="input"
      aria-label={label}
      {...attributes}
      onInput={({ currentTarget }) => onValue(currentTarget.value)}
    />
  );
}

type SelectProps<T extends string> = {
  value: T;
  onValue: (value: T) => void;
  options: readonly (T | { value: T; label: string })[];
  id?: string;
  label?: string;
};

export function Select<T extends string>({ value, onValue, options, id, label }: SelectProps<T>) {
  return (
    <select
      id={id}
      class="input"
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => onValue(currentTarget.value as T)}
    >
      {options.map((option) => {
        const { value: one, label: text } = typeof option === "string" ? { value: option, label: option } : option;
        return (
          <option key={one} value={one}>
            {text}
          </option>
        );
      })}
    </select>
  );
}

export type Submit = {
  busy: boolean;
  failure: ApiFailure | null;
  /** What the server said of one field. */
  problem: (field: string) => string | undefined;
  onSubmit: (event: Event) => Promise<void>;
};

/** Sends a form once at a time and keeps what the server said, field by field. */
export function useSubmit(send: () => Promise<unknown>): Submit {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiFailure | null>(null);
  return {
    busy,
    failure,
    problem: (field) => failure?.details.find((detail) => detail.field === field)?.message,
    async onSubmit(event) {
      event.preventDefault();
      if (busy) return;
      setBusy(true);
      setFailure(null);
      try {
        await send();
      } catch (error) {
        setFailure(asFailure(error));
      } finally {
        setBusy(false);
      }
    },
  };
}

/** A refusal that belongs to no single field. */
export function FormProblem({ failure }: { failure: ApiFailure | null }) {
  if (!failure || failure.details.length > 0) return null;
  return (
    <p class="note bad" role="alert">
      {failure.message}
      {failure.requestId !== null && <span class="mono"> {failure.requestId}</span>}
    </p>
  );
}

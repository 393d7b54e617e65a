import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { ApiFailure } from "../api.ts";
import { toApiFailure } from "../live.ts";
import { Dialog } from "./dialog.tsx";

type Control<T> = {
  value: T;
  onValue: (value: T) => void;
  id?: string;
  /** The accessible name of a control without a visible label. */
  label?: string;
  "aria-describedby"?: string;
  "aria-invalid"?: boolean;
};

type InputProps = Control<string> & {
  type?: "text" | "email" | "password" | "search" | "url" | "number" | "date" | "datetime-local";
  required?: boolean;
  minLength?: number;
  maxLength?: number;
  min?: number;
  max?: number;
  placeholder?: string;
  autocomplete?: string;
};

export function TextInput({ onValue, label, ...rest }: InputProps) {
  // TypeScript cannot match a variable `type` to the union type of the element's props.
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

type TextAreaProps = Control<string> & { rows?: number; maxLength?: number; placeholder?: string };

export function TextArea({ onValue, label, ...rest }: TextAreaProps) {
  return (
    <textarea
      class="input"
      aria-label={label}
      {...rest}
      onInput={({ currentTarget }) => onValue(currentTarget.value)}
    />
  );
}

type SelectProps<T extends string> = Control<T> & {
  options: readonly (T | { value: T; label: string })[];
  disabled?: boolean;
};

export function Select<T extends string>({ value, onValue, options, label, ...rest }: SelectProps<T>) {
  return (
    <select
      class="input"
      aria-label={label}
      value={value}
      {...rest}
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

/** The options of a filter, the first of which shows everything. */
export const filterOptions = <T extends string>(all: string, values: readonly T[], text: (value: T) => string) => [
  { value: "" as const, label: all },
  ...values.map((value) => ({ value, label: text(value) })),
];

type CheckProps = { checked: boolean; onChecked: (checked: boolean) => void; disabled?: boolean; children: string };

export function Check({ checked, onChecked, disabled, children }: CheckProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        disabled={disabled}
        onChange={({ currentTarget }) => onChecked(currentTarget.checked)}
      />
      {children}
    </label>
  );
}

export type Submit = {
  busy: boolean;
  failure: ApiFailure | null;
  /** The server's error for one field. */
  problem: (field: string) => string | undefined;
  /** The errors that belong to no visible field. */
  rest: () => string[];
  onSubmit: (event: Event) => Promise<void>;
};

/** Submits a form, once at a time, and keeps the server's errors by field. */
export function useSubmit(send: () => Promise<unknown>): Submit {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<ApiFailure | null>(null);
  const shown = useRef(new Set<string>()).current;
  return {
    busy,
    failure,
    problem(field) {
      shown.add(field);
      return failure?.details.find((detail) => detail.field === field)?.message;
    },
    rest() {
      if (!failure) return [];
      if (failure.details.length === 0) return [failure.message];
      return failure.details
        .filter(({ field }) => !shown.has(field))
        .map(({ field, message }) => `${field} ${message}`);
    },
    async onSubmit(event) {
      event.preventDefault();
      if (busy) return;
      setBusy(true);
      setFailure(null);
      try {
        await send();
      } catch (error) {
        setFailure(toApiFailure(error));
      } finally {
        setBusy(false);
      }
    },
  };
}

/** The error that belongs to no field of the form. */
export function FormProblem({ form }: { form: Submit }) {
  const problems = form.rest();
  if (problems.length === 0) return null;
  return (
    <div class="note bad" role="alert">
      {problems.map((text) => (
        <p key={text}>{text}</p>
      ))}
      {form.failure?.requestId && <p class="mono small">{form.failure.requestId}</p>}
    </div>
  );
}

type FormPart = { form: Submit; children: string };

export const SubmitButton = ({ form, children }: FormPart) => (
  <button type="submit" class="button primary" disabled={form.busy}>
    {children}
  </button>
);

/** What the server refused, and the button. */
export const FormEnd = ({ form, children }: FormPart) => (
  <>
    <FormProblem form={form} />
    <div class="actions">
      <SubmitButton form={form}>{children}</SubmitButton>
    </div>
  </>
);

type FormDialogProps = {
  title: string;
  action: string;
  form: Submit;
  onClose: () => void;
  children: ComponentChildren;
};

/** A form in a dialog with its errors and one button. */
export function FormDialog({ title, action, form, onClose, children }: FormDialogProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <form class="stack" onSubmit={form.onSubmit}>
        {children}
        <FormEnd form={form}>{action}</FormEnd>
      </form>
    </Dialog>
  );
}

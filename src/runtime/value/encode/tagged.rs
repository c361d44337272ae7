//! The objects that JSON cannot represent: most have a tag on the wire, some another form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rquickjs::promise::PromiseState;
use rquickjs::{Array, ArrayBuffer, Object, Value as JsValue};

use super::super::class::copy_bytes;
use super::super::form::Form;
use super::super::read;
use super::{EncodeError, Encoder, Fault, WriteResult};

impl<'js, F: Form> Encoder<'_, 'js, F> {
    /// An object with the tag as its only key.
    pub(super) fn tagged(
        &mut self,
        tag: &str,
        payload: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let place = self.form.open_fields();
        self.form.key(&F::key_of(tag));
        payload(self)?;
        self.form.close_fields(place, false);
        Ok(())
    }

    pub(super) fn function(&mut self, object: &Object<'js>) -> Result<(), EncodeError> {
        let function = object.as_function().cloned();
        let function = function.ok_or_else(|| EncodeError::unserializable("not a function"))?;
        let (id, name) = (self.export)(function)?;
        let place = self.form.open_fields();
        self.form.key(&F::key_of("$fn"));
        self.string(&id)?;
        self.form.key(&F::key_of("name"));
        self.string(&name)?;
        self.form.close_fields(place, false);
        self.take(r#"{"$fn":,"name":}"#.len())
    }

    pub(super) fn entries(
        &mut self,
        object: &Object<'js>,
        iterator: &str,
        next: &str,
        entry: fn(&mut Self, &Array<'js>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.take(12)?;
        let iterator = self.kit_call(iterator, object.as_value().clone())?;
        let next = self.guarded((self.kit)(next))?;
        self.form.open_list();
        let mut count = 0_usize;
        loop {
            let step: JsValue<'js> = self.guarded(next.call((iterator.clone(),)))?;
            let Some(step) = step.as_array() else { break };
            self.take(1)?;
            entry(self, step).map_err(|error| error.inside(count.to_string()))?;
            count += 1;
        }
        self.form.close_list();
        Ok(())
    }

    pub(super) fn pair(&mut self, entry: &Array<'js>) -> Result<(), EncodeError> {
        self.take(3)?;
        self.form.open_list();
        self.member_at(entry, 0).map_err(|error| error.inside("0"))?;
        self.member_at(entry, 1).map_err(|error| error.inside("1"))?;
        self.form.close_list();
        Ok(())
    }

    pub(super) fn member(&mut self, entry: &Array<'js>) -> Result<(), EncodeError> {
        self.member_at(entry, 0)
    }

    fn member_at(&mut self, entry: &Array<'js>, index: u32) -> Result<(), EncodeError> {
        let value = self.guarded(read::element(entry.as_object(), index))?;
        if !self.value(&value)? {
            self.form.null();
        }
        Ok(())
    }

    pub(super) fn bytes(&mut self, object: &Object<'js>) -> Result<(), EncodeError> {
        let parts = self.kit_call("viewParts", object.as_value().clone())?;
        let detached = || EncodeError::unserializable("a detached buffer");
        let parts = parts.as_array().ok_or_else(detached)?;
        let buffer = self.guarded(parts.get::<ArrayBuffer<'js>>(0))?;
        let (offset, length) = (self.guarded(parts.get::<usize>(1))?, self.guarded(parts.get::<usize>(2))?);
        self.take(length.div_ceil(3) * 4 + 13)?;
        let bytes = copy_bytes(&buffer, offset, length).ok_or_else(detached)?;
        self.tagged("$bytes", |this| {
            this.form.string(&BASE64.encode(bytes));
            Ok(())
        })
    }

    pub(super) fn error(&mut self, error: &Object<'js>) -> Result<(), EncodeError> {
        self.take(14)?;
        let parts = self.kit_call("errorParts", error.as_value().clone())?;
        let parts = parts.as_array().ok_or_else(|| EncodeError::unserializable("an unreadable error"))?;
        self.tagged("$error", |this| {
            let start = this.form.open_fields();
            for (index, key) in ["name", "message", "stack", "cause"].into_iter().enumerate() {
                let value = this.guarded(parts.get::<JsValue<'js>>(index))?;
                let place = this.form.key(&F::key_of(key));
                if this.value(&value).map_err(|error| error.inside(key))? {
                    this.take(key.len() + 4)?;
                } else {
                    this.form.drop_key(place);
                }
            }
            this.form.close_fields(start, false);
            Ok(())
        })
    }

    /// What a promise inside of the value was fulfilled with. One that is not settled is for the caller to await.
    pub(super) fn promise(&mut self, object: &Object<'js>) -> WriteResult {
        let settled = object.as_value().as_promise().and_then(|promise| match promise.state() {
            PromiseState::Resolved => promise.result::<JsValue<'js>>(),
            PromiseState::Pending | PromiseState::Rejected => None,
        });
        match settled {
            Some(value) => {
                let value = self.guarded(value)?;
                self.value(&value)
            }
            None => Err(EncodeError::new(Fault::Unsettled)),
        }
    }

    /// An object of a class that keeps its state to itself is what its getters return.
    pub(super) fn getters(&mut self, object: &Object<'js>) -> Result<(), EncodeError> {
        let parts = self.kit_call("gettersOf", object.as_value().clone())?;
        let Some(parts) = parts.as_array() else { return Ok(()) };
        let mut count = 0;
        for index in (0..parts.len()).step_by(2) {
            let name: String = self.guarded(parts.get(index))?;
            let value: JsValue<'js> = self.guarded(parts.get(index + 1))?;
            let place = self.form.key(&F::key_of(&name));
            if self.value(&value).map_err(|error| error.inside(name.clone()))? {
                self.take(name.len() + 3 + usize::from(count > 0))?;
                count += 1;
            } else {
                self.form.drop_key(place);
            }
        }
        Ok(())
    }
}

/// Whether an object has a prototype beside that of every object.
pub(super) fn has_class_of_its_own(object: &Object<'_>) -> bool {
    object.get_prototype().and_then(|prototype| prototype.get_prototype()).is_some()
}
